"""What a Strata run exercised (V1 to V8): a run that undid, settled and rotated nothing proves nothing of the ring.

What it is: counters from the notes, each front stage by itself, and a verdict. What it is not: a rule; nothing here is
wrong with a trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from hbtrace.checks.coverage import CoverageVerdict
from hbtrace.strata.checks.notes import is_sound
from hbtrace.trace.vocabulary import EventRow

TESTED: Final = range(1, 9)
"""The engine's kernel tests: n_keep of 1 to 8 on five layers (8 cases); windows of 1 to 8 tokens, from row 0 and from
the middle row (16 cases)."""
TESTED_LAYERS: Final = 5


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
    unended: int = 0
    """Requests that begin and do not end."""
    serial: int = 0
    untraced: int = 0
    """Requests of which the log has no trace, and should have."""
    serial_after_pipelined: int = 0
    saved_away: int = 0
    """Checkpoints and parkings after an odd number of speculative commits."""
    prompt_windows: int = 0
    decode_windows: int = 0
    kept: dict[int, int] = field(default_factory=dict)
    """Commits by how many tokens they kept."""
    inputs: dict[int, int] = field(default_factory=dict)
    """Windows by their tokens."""
    layers: int = 0
    why_serial: dict[str, int] = field(default_factory=dict)
    """Requests served serially, by the reason that was given."""

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
        for what, seen in (("commits kept", self.kept), ("windows had", self.inputs)):
            if outside := set(seen) - set(TESTED):
                out.append(f"{what} {_list(outside)} tokens, beyond the kernel test's 1 to 8")
        return out

    def told(self) -> list[str]:
        """What a reader must know besides: V6, requests that count for nothing here, and V8, the kernel tests."""
        out = []
        if self.serial:
            why = ", ".join(f"{name} {number}" for name, number in sorted(self.why_serial.items()))
            total = self.serial + self.pipelined + self.untraced
            out.append(f"{self.serial} of {total} requests were served serially and are not covered ({why})")
        if self.untraced:
            total = self.serial + self.pipelined + self.untraced
            out.append(f"{self.untraced} of {total} requests have no pipeline trace in the log, and are not covered")
        if self.kept and self.inputs:
            out.append(
                f"the engine's kernel tests keep 1 to 8 tokens on {TESTED_LAYERS} layers and run windows of 1 to 8;"
                f" here {_list(self.kept)} were kept, windows had {_list(self.inputs)}, on {self.layers or '?'} layers"
                " (first rows are in no trace)"
            )
        return out

    def advice(self) -> list[str]:
        """What to change in the run, in the order of `lacks`."""
        words = (
            ("an undo", "STRATA_PIPELINE_FORCE_MISS=3: every third guess is made wrong, unless the gate holds it"),
            ("a settle that copied", "more requests: a settle copies if another buffer is current at the end"),
            ("as a ", "more or longer requests, with misses among them"),
            ("state hashes cover", "a build whose STATE_HASH covers every front stage"),
            ("no serial request", "a request with logprobs or penalties after a pipelined one"),
            ("no checkpoint", "a checkpoint between requests"),
            ("of a prompt", "a prompt that is not in the session yet, and some tokens to generate"),
        )
        lacks = self.lacks()
        return [todo for part, todo in words if any(part in sentence for sentence in lacks)]

    @property
    def verdict(self) -> CoverageVerdict:
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
            "pipelined": self.pipelined, "undos": least("undone"), "speculative": least("speculative"),
            "on_path": least("on_path"), "in_place": least("in_place"), "settles": least("settled_by_copy"),
            "serial": self.serial, "serial_after_pipelined": self.serial_after_pipelined,
            "prompt_windows": self.prompt_windows, "decode_windows": self.decode_windows,
        }  # fmt: skip

    def units(self) -> dict[str, int]:
        """What was served. How much was issued for it is no measure: a ring saves copies."""
        return {
            "requests": self.pipelined + self.serial, "prompt windows": self.prompt_windows,
            "decode windows": self.decode_windows,
        }  # fmt: skip


COUNTERS: Final = tuple(StrataCoverage().counters())
"""The names of `--require` that a Strata trace has."""


class StrataExerciser:
    """Counts, one event at a time."""

    def __init__(self) -> None:
        self.coverage = StrataCoverage()
        self._odd: dict[int, int] = {}
        self._was_pipelined = False
        self._seq: set[tuple[int, int]] = set()

    def feed(self, event: EventRow) -> None:
        """The next one; notes that lack what is counted are left out."""
        attrs, what = event.get("attrs"), str(event.get("what"))
        if event.get("ev") != "note" or not isinstance(attrs, dict) or not is_sound(what, attrs):
            return
        handler = getattr(self, f"_on_{what}", None)
        if handler is not None:
            handler(attrs)

    def _on_strata(self, attrs: dict[str, Any]) -> None:
        self.coverage.buffers = attrs.get("buffers", 3)
        self.coverage.layers = attrs.get("layers", 0)

    def _on_engage(self, _: dict[str, Any]) -> None:
        self.coverage.ring = True

    def _on_refuse(self, _: dict[str, Any]) -> None:
        self.coverage.refused = True

    def _on_stage(self, attrs: dict[str, Any]) -> None:
        if attrs.get("front"):
            self.coverage.stages[attrs["stage"]] = StageCoverage()

    def _on_request(self, attrs: dict[str, Any]) -> None:
        if attrs.get("do") == "end" and self.coverage.unended and not attrs.get("cut"):
            self.coverage.unended -= 1
        if attrs.get("do") != "begin":
            return
        self.coverage.unended += 1
        self._seq.clear()
        self._odd.clear()
        if attrs.get("kind") == "pipelined":
            self.coverage.pipelined += 1
            self._was_pipelined = True
        elif attrs.get("kind") == "untraced":
            self.coverage.untraced += 1
            self._was_pipelined = False
        else:
            self.coverage.serial += 1
            why = str(attrs.get("why", "no reason told"))
            self.coverage.why_serial[why] = self.coverage.why_serial.get(why, 0) + 1
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


def coverage(events: Iterable[EventRow]) -> StrataCoverage:
    """What the events exercised."""
    exerciser = StrataExerciser()
    for event in events:
        exerciser.feed(event)
    return exerciser.coverage


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
