"""The command reference in README.md: what `hbtrace VERB --help` prints, between two markers.

`python -m tests.readme` writes it anew; a test holds the README to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN = "<!-- reference: `make readme` writes this -->\n"
END = "<!-- end of reference -->\n"


def reference() -> str:
    """The block between the markers."""
    from hbtrace.cli import VERBS

    return "".join(f"\n### `hbtrace {verb}`\n\n```\n{_help(verb)}```\n" for verb in VERBS) + "\n"


def _help(verb: str) -> str:
    # On a terminal of 80 columns, whatever this one is.
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "hbtrace", verb, "--help"]
    done = subprocess.run(
        command, env=environment, cwd=README.parent, capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout


def renewed(text: str) -> str:
    """The README's text with the reference of now."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + reference() + END + after


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
