"""What only a backend's sources tell, read from `backends.toml` and overridden on the command line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final

from hbtrace.errors import UsageError

_RULE: Final = re.compile(r"([^=\s]+)=(src|dst|both)(,after-dst)?")


@dataclass(frozen=True)
class Facts:
    """Of the backends of one registry. `runs_on` empty: unknown, and the default of the format holds."""

    runs_on: str = ""
    after_dst: bool = False
    drains: tuple[str, ...] = ()
    synchronous: bool = False


def load_facts(rules: Sequence[str] = ()) -> dict[str, Facts]:
    """By registry name. `rules` are `NAME=src|dst|both[,after-dst]`. Raises UsageError."""
    text = files(__package__).joinpath("backends.toml").read_text("utf-8")
    table = {name: _facts(entry) for name, entry in tomllib.loads(text).items()}
    for rule in rules:
        match = _RULE.fullmatch(rule)
        if match is None:
            raise UsageError(f"--copies {rule!r}: give NAME=src, dst or both, such as CUDA=src or CUDA=src,after-dst")
        name, runs_on, after = match.groups()
        table[name] = replace(table.get(name, Facts()), runs_on=runs_on, after_dst=after is not None)
    return table


def _facts(entry: dict[str, object]) -> Facts:
    drains = entry.get("drains", ())
    return Facts(
        runs_on=str(entry.get("runs_on", "")),
        after_dst=bool(entry.get("after_dst", False)),
        drains=tuple(drains) if isinstance(drains, list) else (),
        synchronous=bool(entry.get("synchronous", False)),
    )


def encode_facts(table: dict[str, Facts]) -> str:
    """As the library reads it: a line a registry, its words separated by tabs."""
    return "\n".join(
        "\t".join(
            (
                name,
                facts.runs_on,
                str(int(facts.after_dst)),
                json.dumps(facts.drains) if facts.drains else "",
                str(int(facts.synchronous)),
            )
        )
        for name, facts in table.items()
    )
