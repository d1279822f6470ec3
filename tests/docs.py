"""What README.md and the pages show of the tool: sessions in `console` blocks, and the page `reference`.

`python -m tests.docs` writes all of it anew; tests hold every document to it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "hbtrace/docs").glob("*.md"))
DOCUMENTS = [README, ROOT / "sample_traces/README.md", *PAGES]
REFERENCE = ROOT / "hbtrace/docs/reference.md"

_CONSOLE = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
_HEAD = """\
# Command reference

All verbs and all options: what `--help` says of each.

<!-- `make docs` writes this page: what is wrong here is wrong in the help -->
"""


def reference() -> str:
    """The page `reference`."""
    commands = ["hbtrace", *(f"hbtrace {verb}" for verb in _verbs())]
    return _HEAD + "".join(f"\n## `{command}`\n\n```\n{_help(command)}```\n" for command in commands)


def _help(command: str) -> str:
    done = _run(f"{command} --help")
    done.check_returncode()
    return done.stdout


def _verbs() -> list[str]:
    """The verbs, and those of verbs that have some of their own (`baseline write`)."""
    import click

    from hbtrace.cli import VERBS, cli

    context = click.Context(cli)
    found = []
    for verb in VERBS:
        command = cli.get_command(context, verb)
        inner = command.list_commands(context) if isinstance(command, click.Group) else []
        found += [f"{verb} {name}" for name in inner] or [verb]
    return found


def sessions(text: str) -> list[str]:
    """The `console` blocks of a document."""
    return _CONSOLE.findall(text)


def session(block: str) -> str:
    """A block of `$ command` lines, each with what it prints now: both streams, as a reader sees them."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    printed = [_run(command[2:]).stdout for command in commands]
    for command, output in zip(commands, printed, strict=True):
        if re.search(r"^hbtrace: ", output, re.MULTILINE):
            raise ValueError(f"{command} fails: {output}")
    return "".join(f"{command}\n{output}" for command, output in zip(commands, printed, strict=True))


def _run(command: str) -> subprocess.CompletedProcess[str]:
    # On a terminal of 80 columns, whatever this one is.
    script = f'hbtrace() {{ "{sys.executable}" -m hbtrace "$@"; }}\n{command}'
    return subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env={**os.environ, "COLUMNS": "80"}, check=False, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip


def renewed(text: str) -> str:
    """A document's text with the sessions of now."""
    return _CONSOLE.sub(lambda match: session(match[0]), text)


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
    for document in DOCUMENTS:
        document.write_text(renewed(document.read_text(encoding="utf-8")), encoding="utf-8")
