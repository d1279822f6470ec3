"""What the recorder library is told of backends, for no call of theirs tells it: from the table, and the command line.

The table is `hbtrace.backends`; `--copies` goes before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hbtrace import backends
from hbtrace.errors import UsageError

_RULE: Final = re.compile(r"([^=\s]+)=(src|dst|both)(,after-dst)?")


@dataclass(frozen=True)
class Facts:
    """Of the backends of one registry. `runs_on` empty: unknown, and the default of the format holds."""

    runs_on: str = ""
    after_dst: bool = False
    drains: tuple[str, ...] = ()


def load_facts(rules: Sequence[str] = ()) -> dict[str, Facts]:
    """By registry name. `rules` are `NAME=src|dst|both[,after-dst]`. Raises UsageError."""
    known = backends.by_registry().items()
    table = {name: Facts(b.runs_on or "", drains=b.drains) for name, b in known if b.runs_on or b.drains}
    for rule in rules:
        match = _RULE.fullmatch(rule)
        if match is None:
            raise UsageError(f"--copies {rule!r}: give NAME=src, dst or both, such as CUDA=src or CUDA=src,after-dst")
        name, runs_on, after = match.groups()
        table[name] = replace(table.get(name, Facts()), runs_on=runs_on, after_dst=after is not None)
    return table


def encode_facts(table: dict[str, Facts]) -> str:
    """As the library reads it: a line a registry, its words separated by tabs."""
    return "\n".join(
        "\t".join((name, facts.runs_on, str(int(facts.after_dst)), json.dumps(facts.drains) if facts.drains else ""))
        for name, facts in table.items()
    )
