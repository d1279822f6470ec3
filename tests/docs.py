"""What README.md shows of the tool: sessions in `console` blocks, and the command reference between two markers.

`python -m tests.readme` writes both anew; a test holds the README to them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN = "<!-- reference: `make readme` writes this -->\n"
END = "<!-- end of reference -->\n"


def reference() -> str:
    """The block between the markers."""
    return "".join(f"\n### `hbtrace {verb}`\n\n```\n{_help(verb)}```\n" for verb in _verbs()) + "\n"


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


def _help(verb: str) -> str:
    # On a terminal of 80 columns, whatever this one is.
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "hbtrace", *verb.split(), "--help"]
    done = subprocess.run(
        command, env=environment, cwd=README.parent, capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout


def session(block: str) -> str:
    """A block of `$ command` lines, each with what it prints now: both streams, as a reader sees them."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    printed = [_printed(command[2:]) for command in commands]
    for command, output in zip(commands, printed, strict=True):
        if re.search(r"^hbtrace: ", output, re.MULTILINE):
            raise ValueError(f"{command} fails: {output}")
    return "".join(f"{command}\n{output}" for command, output in zip(commands, printed, strict=True))


def _printed(command: str) -> str:
    script = f'hbtrace() {{ "{sys.executable}" -m hbtrace "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script], cwd=README.parent, env={**os.environ, "COLUMNS": "80"}, check=False, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip
    return done.stdout


def renewed(text: str) -> str:
    """The README's text with the sessions and the reference of now."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    text = before + BEGIN + reference() + END + after
    return re.sub(r"(?<=```console\n).*?(?=```)", lambda match: session(match[0]), text, flags=re.DOTALL)


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
