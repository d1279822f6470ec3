"""What a Strata run exercised (V1 to V8): a run that undid, settled and rotated nothing proves nothing of the ring.

What it is: counters from the notes, each front stage by itself, and a verdict. What it is not: a rule; nothing here is
wrong with a trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from hbtrace.checks.strata_findings import Event

PARITY_KEPT = range(1, 9)
"""n_keep of the seed's kernel test: 8 cases, five layers."""

Verdict = Literal["exercised", "partly", "not-exercised"]


@dataclass
class StageCoverage:
    """V2 and V3 of one front stage."""

    speculative: int = 0
    on_path: int = 0
    undone: int = 0
    in_place: int = 0
    settled_by_copy: int = 0
    sources: set[int] = field(default_factory=set)
    destinations: set[int] = field(default_factory=set)

    def lacks(self, buffers: int, *, ring: bool) -> list[str]:
        """What this stage never did."""
        counts = {
            "a speculative commit": self.speculative, "a right guess": self.on_path, "an undo": self.undone,
            "a commit in place": self.in_place,
        }  # fmt: skip
        missing = [name for name, count in counts.items() if not count]
        if ring:
            if not self.settled_by_copy:
                missing.append("a settle that copied")
            for name, seen in (("source", self.sources), ("destination", self.destinations)):
                if len(seen) < buffers:
                    unseen = sorted(set(range(buffers)) - seen)
                    missing.append(f"buffer {', '.join(map(str, unseen))} as a {name}")
        return missing


@dataclass
class StrataCoverage:
    """Counters of a run, and what it lacks."""

    ring: bool = False
    refused: bool = False
    buffers: int = 3
    stages: dict[int, StageCoverage] = field(default_factory=dict)
    hashed: set[int] = field(default_factory=set)
    pipelined: int = 0
    serial: int = 0
    serial_after_pipelined: int = 0
    saved_away: int = 0
    """Checkpoints and parkings after an odd number of speculative commits."""
    prompt_windows: int = 0
    decode_windows: int = 0
    kept: dict[int, int] = field(default_factory=dict)
    """Commits by how many tokens they kept."""
    inputs: dict[int, int] = field(default_factory=dict)
    """Windows by their tokens."""

    def lacks(self) -> list[str]:
        """One sentence for each thing that was never seen."""
        out = []
        for number, stage in sorted(self.stages.items()):
            missing = stage.lacks(self.buffers, ring=self.ring)
            if missing:
                out.append(f"stage {number} never had {', '.join(missing)}")
        unhashed = sorted(set(self.stages) - self.hashed)
        if self.hashed and unhashed:
            out.append(f"state hashes cover stage {_list(self.hashed)}, not {_list(unhashed)}")
        if not self.serial_after_pipelined:
            out.append("no serial request came after a pipelined one")
        if self.ring and not self.saved_away:
            out.append("no checkpoint or parking came after an odd number of speculative commits")
        if not self.prompt_windows or not self.decode_windows:
            out.append("windows of a prompt and of decode were not both seen")
        outside = sorted(set(self.kept) - set(PARITY_KEPT))
        if outside:
            out.append(f"commits kept {_list(outside)} tokens, beyond the kernel test's 1 to 8")
        return out

    @property
    def verdict(self) -> Verdict:
        """not-exercised: no undo at all, or no speculative commit; exercised: every front stage did everything."""
        stages = self.stages.values()
        if not any(stage.undone and stage.speculative for stage in stages):
            return "not-exercised"
        complete = all(not stage.lacks(self.buffers, ring=self.ring) for stage in stages)
        return "exercised" if complete and not self.lacks() else "partly"

    def counters(self) -> dict[str, int]:
        """The numbers, each the least of all front stages where they are counted by stage."""
        stages = list(self.stages.values())

        def least(name: str) -> int:
            return min((getattr(stage, name) for stage in stages), default=0)

        return {
            "undos": least("undone"), "speculative": least("speculative"), "on_path": least("on_path"),
            "in_place": least("in_place"), "settles": least("settled_by_copy"), "serial": self.serial,
            "serial_after_pipelined": self.serial_after_pipelined, "prompt_windows": self.prompt_windows,
            "decode_windows": self.decode_windows,
        }  # fmt: skip


class Exerciser:
    """Counts, one event at a time."""

    def __init__(self) -> None:
        self.coverage = StrataCoverage()
        self._pending: dict[tuple[int, int], None] = {}
        self._odd: dict[int, int] = {}
        self._was_pipelined = False
        self._seq: set[tuple[int, int]] = set()

    def feed(self, event: Event) -> None:
        attrs = event.get("attrs")
        if event.get("ev") != "note" or not isinstance(attrs, dict):
            return
        handler = getattr(self, f"_on_{event.get('what')}", None)
        if handler is not None:
            handler(attrs)

    def _on_strata(self, attrs: dict[str, Any]) -> None:
        self.coverage.buffers = attrs.get("buffers", 3)

    def _on_engage(self, _: dict[str, Any]) -> None:
        self.coverage.ring = True

    def _on_refuse(self, _: dict[str, Any]) -> None:
        self.coverage.refused = True

    def _on_stage(self, attrs: dict[str, Any]) -> None:
        if attrs.get("front"):
            self.coverage.stages[attrs["stage"]] = StageCoverage()

    def _on_request(self, attrs: dict[str, Any]) -> None:
        if attrs.get("do") != "begin":
            return
        self._seq.clear()
        self._odd.clear()
        if attrs.get("kind") == "pipelined":
            self.coverage.pipelined += 1
            self._was_pipelined = True
        else:
            self.coverage.serial += 1
            self.coverage.serial_after_pipelined += self._was_pipelined
            self._was_pipelined = False

    def _on_window(self, attrs: dict[str, Any]) -> None:
        if attrs.get("do") != "launch" or attrs.get("stage") != 0:
            return
        kind, tokens = attrs.get("kind", "decode"), attrs.get("tokens", 0)
        self.coverage.prompt_windows += kind == "prompt"
        self.coverage.decode_windows += kind == "decode"
        self.coverage.inputs[tokens] = self.coverage.inputs.get(tokens, 0) + 1

    def _on_commit(self, attrs: dict[str, Any]) -> None:
        stage = self.coverage.stages.get(attrs.get("stage", -1))
        if stage is None:
            return
        kind, keep = attrs.get("kind"), attrs.get("keep", 0)
        self.coverage.kept[keep] = self.coverage.kept.get(keep, 0) + 1
        if kind == "spec commit":
            stage.speculative += 1
            self._odd[attrs["stage"]] = self._odd.get(attrs["stage"], 0) + 1
            self._seq.add((attrs["stage"], attrs["seq"]))
        elif kind == "undo commit":
            stage.undone += 1
        elif kind == "in-place commit":
            stage.in_place += 1
        if "src" in attrs and kind == "spec commit":
            stage.sources.add(attrs["src"])
            stage.destinations.add(attrs["dst"])

    def _on_verdict(self, attrs: dict[str, Any]) -> None:
        for number, stage in self.coverage.stages.items():
            if attrs.get("on") == 1 and (number, attrs["seq"]) in self._seq:
                stage.on_path += 1
            self._seq.discard((number, attrs["seq"]))

    def _on_settle(self, attrs: dict[str, Any]) -> None:
        stage = self.coverage.stages.get(attrs.get("stage", -1))
        if stage is not None and attrs.get("bytes") and attrs.get("source"):
            stage.settled_by_copy += 1

    def _on_session(self, attrs: dict[str, Any]) -> None:
        if attrs.get("do") in ("checkpoint", "park"):
            self.coverage.saved_away += any(count % 2 for count in self._odd.values())

    def _on_state_hash(self, attrs: dict[str, Any]) -> None:
        self.coverage.hashed |= set(attrs.get("stages", ()))

    def _on_state_hash_items(self, attrs: dict[str, Any]) -> None:
        self._on_state_hash(attrs)


def coverage(events: Iterable[Event]) -> StrataCoverage:
    """What the events exercised."""
    exerciser = Exerciser()
    for event in events:
        exerciser.feed(event)
    return exerciser.coverage


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
