"""Both kernels on random flat programs, with a library from elsewhere: `python -m tests.compiled.compare FOLDER N`."""

from __future__ import annotations

import sys
from pathlib import Path

from hbtrace.compiled.library import open_library
from tests.compiled.programs import script
from tests.compiled.twins import found_by


def main() -> None:
    folder, count = sys.argv[1:]
    seed = found_by(range(int(count)), script, library=open_library(Path(folder)))
    print("the twins say the same" if seed is None else f"they differ on seed {seed}")


if __name__ == "__main__":
    main()
