"""Twins on random flat programs, with another library: `python -m tests.compiled.compare FOLDER N [WHAT]`.

WHAT: `meters` or `orders` instead of kernels.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hbtrace.compiled.library import open_library
from tests.compiled import meters, orders
from tests.compiled.programs import script
from tests.compiled.twins import found_by


def main() -> None:
    folder, count, *what = sys.argv[1:]
    library, seeds = open_library(Path(folder)), range(int(count))
    other = {"meters": meters.found_by, "orders": orders.found_by}
    seed = other[what[0]](seeds, library) if what else found_by(seeds, script, library=library)
    print("the twins say the same" if seed is None else f"they differ on seed {seed}")


if __name__ == "__main__":
    main()
