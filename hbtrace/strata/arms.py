"""Two arms of one workload, off and on: whether replies and state are equal, and which is faster.

What it is: request by request over the logs of a Strata run, with what cannot be compared told apart from what is equal
and from what differs; then speed, with no claim where the spread within an arm is wider than the difference. What it is
not: a proof. State hashes cover what they hash (stage 0), and see no protocol (`hbtrace check` does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from hbtrace.strata.logs.run import Log, LoggedRequest

Equality = Literal["equal", "differs", "missing", "not comparable"]

STALE: Final = "stale"
"""Cells past the end: told apart, for nothing should read them."""


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """One request of one pair of runs. `first` names the first difference, or why there is no comparing."""

    run: int
    request: int
    verdict: Equality
    first: str = ""
    stale: bool = False
    """The stale cells differ, and nothing else."""
    replied: bool = True
    """Both replies were there, whole."""
    hashed: bool = True
    """Both state hashes were there."""
    drafts: str = ""
    """Where the drafts accepted and offered differ: what they are. Their times are then not comparable."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A quantity of both arms, one value a run. `claim` is None where nothing can be claimed; `why` then says why."""

    name: str
    off: tuple[float, ...]
    on: tuple[float, ...]
    claim: float | None
    """The relative difference, on against off."""
    why: str = ""

    @property
    def means(self) -> tuple[float, float]:
        return _mean(self.off), _mean(self.on)

    @property
    def spread(self) -> float:
        """The wider range within an arm."""
        return max(_range(self.off), _range(self.on))


@dataclass
class ArmsVerdict:
    """All of it. `engaged`: for each arm and run whether the ring said that it was on."""

    requests: list[RequestVerdict] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why the arms are not what they should be: no engagement line, other settings."""
    notes: list[str] = field(default_factory=list)

    def count(self, verdict: Equality) -> int:
        return sum(found.verdict == verdict for found in self.requests)

    @property
    def compared(self) -> int:
        """Requests that could be compared: N of N."""
        return self.count("equal") + self.count("differs") + self.count("missing")

    @property
    def comparable(self) -> bool:
        return self.compared > 0 and not self.problems

    @property
    def differs(self) -> bool:
        return self.compared > self.count("equal")


def compare(off: Sequence[Log], on: Sequence[Log]) -> ArmsVerdict:
    """Runs of an arm in the order in which they ran. Run k is held against run k of the other arm, or its last."""
    verdict = ArmsVerdict()
    for number in range(max(len(off), len(on))):
        verdict.requests += _requests(number, off[min(number, len(off) - 1)], on[min(number, len(on) - 1)])
    for arm, logs in (("off", off), ("on", on)):
        for number, log in enumerate(logs, 1):
            verdict.problems += [f"{arm} run {number}: {sentence}" for sentence in (*log.unassigned, *log.unclear)]
    _engagement(verdict, off, on)
    _settings(verdict, [*off, *on])
    _exercised(verdict, off, on)
    verdict.speeds = _speeds(off, on)
    return verdict


# equality


def _requests(run: int, off: Log, on: Log) -> list[RequestVerdict]:
    out = []
    for number in range(max(len(off.requests), len(on.requests))):
        if number >= len(on.requests) or number >= len(off.requests):
            arm = "on" if number >= len(on.requests) else "off"
            out.append(RequestVerdict(run, number, "missing", f"the {arm} run has no such request"))
        else:
            out.append(_request(run, number, off.requests[number], on.requests[number]))
    return out


def _request(run: int, number: int, off: LoggedRequest, on: LoggedRequest) -> RequestVerdict:
    replied, hashed = _whole(off) and _whole(on), off.hash is not None and on.hash is not None
    verdict, first = _told(off, on, replied=replied, hashed=hashed)
    return RequestVerdict(run, number, verdict, first, _item(off, on) == STALE, replied, hashed, _drafts(off, on))


def _told(off: LoggedRequest, on: LoggedRequest, *, replied: bool, hashed: bool) -> tuple[Equality, str]:
    """The verdict on a request that both runs have, and what it names."""
    if off.error and on.error:
        return "not comparable", "both failed"
    if off.error or on.error:
        arm = "off" if off.error else "on"
        return "differs", f"the {arm} run failed: {off.error or on.error}"
    if reply := _reply(off, on):
        return "differs", reply
    if (off.hash is None) != (on.hash is None):
        arm = "off" if off.hash is None else "on"
        return "missing", f"the {arm} run has no state hash"
    item = _item(off, on)
    if item == "L" and _cut(off, on):
        lengths = " and ".join(found.hash.items.get("L", "?") for found in (off, on) if found.hash is not None)
        return "not comparable", f"cut by the length limit: it ends at {lengths}, which depends on timing"
    if item == "L" and (off.done is None or on.done is None):
        return "not comparable", f"{_named(item, off, on)}, and no DONE says whether the length limit cut it"
    if item and item != STALE:
        return "differs", _named(item, off, on)
    for arm, found in (("off", off), ("on", on)):
        if found.done is not None and found.tokens and not _whole(found):
            return "not comparable", f"the {arm} run has {len(found.tokens)} of {found.done.generated} tokens"
    if not hashed and not replied:
        return "not comparable", "neither reply nor state hash"
    return "equal", ""


def _whole(request: LoggedRequest) -> bool:
    """Whether the reply is there: as many tokens as its end counts."""
    return request.done is not None and len(request.tokens) == request.done.generated


def _reply(off: LoggedRequest, on: LoggedRequest) -> str:
    """The first difference of two replies as far as they are there, empty if there is none."""
    for at, (one, other) in enumerate(zip(off.tokens, on.tokens, strict=False)):
        if one != other:
            return f"reply: token {at} is {one} and {other}"
    if off.done is None or on.done is None:
        return ""
    if off.done.generated != on.done.generated:
        return f"reply: {off.done.generated} and {on.done.generated} tokens"
    if off.done.finish != on.done.finish:
        return f"finish: {off.done.finish} and {on.done.finish}"
    return ""


def _drafts(off: LoggedRequest, on: LoggedRequest) -> str:
    """E5: accepted and offered drafts where they differ."""
    told = [f"{found.done.accepted}/{found.done.offered}" for found in (off, on) if found.done is not None]
    return " and ".join(told) if len(set(told)) > 1 else ""


def _item(off: LoggedRequest, on: LoggedRequest) -> str:
    """The first item of the state hash that differs, `stale` only if no other does."""
    if off.hash is None or on.hash is None:
        return ""
    one, other = off.hash.items, on.hash.items
    different = [
        name for name in [*one, *(name for name in other if name not in one)] if one.get(name) != other.get(name)
    ]
    return next((name for name in different if name != STALE), STALE if different else "")


def _cut(off: LoggedRequest, on: LoggedRequest) -> bool:
    """Both ended at their length limit; how much a last window commits beyond it is a matter of timing."""
    return all(found.done is not None and found.done.finish == "length" for found in (off, on))


def _named(item: str, off: LoggedRequest, on: LoggedRequest) -> str:
    one, other = ((found.hash.items.get(item, "absent") if found.hash else "absent") for found in (off, on))
    text = f"state: {item} is {one} and {other}"
    if item == "gdn" and off.layers is not None and on.layers is not None:
        pairs = zip(off.layers.layers, on.layers.layers, strict=False)
        first = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
        if first is not None:
            text += f", first in GDN layer {first}"
    return text


# what the arms are


def _engagement(verdict: ArmsVerdict, off: Sequence[Log], on: Sequence[Log]) -> None:
    """V1: an arm that measured the wrong mode measures nothing."""
    for arm, logs, wanted in (("off", off, False), ("on", on, True)):
        for number, log in enumerate(logs, 1):
            if log.ring != wanted:
                said = "never says that the ring was engaged" if wanted else "says that the ring was engaged"
                refused = f" (refused: {log.refused})" if log.refused else ""
                verdict.problems.append(f"{arm} run {number} {said}{refused}")


def _settings(verdict: ArmsVerdict, logs: Sequence[Log]) -> None:
    """E6: the switches that a run echoed must be the same."""
    echoed = [tuple(tuple(sorted(told.values.items())) for told in log.values("switch")) for log in logs]
    if len(set(echoed)) > 1:
        verdict.problems.append("the runs echoed different pipeline switches")


def _exercised(verdict: ArmsVerdict, off: Sequence[Log], on: Sequence[Log]) -> None:
    """E7 and V4: windows and undos beside the verdict, and what the hash covers."""
    for arm, logs in (("off", off), ("on", on)):
        windows, undos = (
            sum(sum(step.event == event for _, step in request.block.steps)
                for log in logs for request in log.requests if request.block)
            for event in ("V", "U")
        )  # fmt: skip
        untested = "" if undos else ": undo untested"
        verdict.notes.append(f"{arm}: {windows} windows, {undos} undos{untested}")
    if any(request.hash for log in (*off, *on) for request in log.requests):
        verdict.notes.append("state hashes cover stage 0 and the drafter only: later front stages are not in them")
    else:
        verdict.problems.append("no run has a state hash, so no state was compared: record with STRATA_STATE_HASH=1")
    serial = [sum(request.block is None and not request.error for log in logs for request in log.requests)
              for logs in (off, on)]  # fmt: skip
    if any(serial):
        told = "requests without a pipeline trace (served serially, or not traced): not covered"
        verdict.notes.append(f"off {serial[0]}, on {serial[1]} {told}")


# speed


def _speeds(off: Sequence[Log], on: Sequence[Log]) -> list[Speed]:
    speeds = []
    requests = range(max((len(log.requests) for log in (*off, *on)), default=0))
    same = [number for number in requests if not _other_work(number, [*off, *on])]
    rates = _rates(off, on, same)
    if same and all(rates):
        left = "" if len(same) == len(requests) else f"over {len(same)} of {len(requests)} requests, of the same work"
        speeds.append(_speed(_RATE, rates[0], rates[1], left))
    elif all(rates := _rates(off, on, requests)):
        differing = [why for number in requests if (why := _other_work(number, [*off, *on]))]
        why = f"not comparable: {differing[0]}" + (", and others" if len(differing) > 1 else "")
        speeds.append(Speed(_RATE, rates[0], rates[1], None, why))
    for number in requests:
        found = _prompt_speed(number, off, on)
        if found is not None:
            speeds.append(found)
    return speeds


_RATE: Final = "decode tokens/s, token-weighted"


def _other_work(number: int, logs: Sequence[Log]) -> str:
    """In what a request differs over all runs such that its times do not compare; empty if in nothing."""
    found = [log.requests[number] for log in logs if number < len(log.requests)]
    done = [request.done for request in found if request.done is not None]
    if len(done) < len(logs):
        return f"request {number} was not served in every run"
    each: dict[str, set[int | str]] = {
        "tokens": {one.generated for one in done},
        "windows": {request.timing.windows for request in found if request.timing is not None},
        "drafts accepted and offered": {f"{one.accepted}/{one.offered}" for one in done},
    }
    return next(
        (f"request {number} has {' and '.join(map(str, sorted(values)))} {what}"
         for what, values in each.items() if len(values) > 1), "",
    )  # fmt: skip


def _rates(off: Sequence[Log], on: Sequence[Log], requests: Sequence[int]) -> list[tuple[float, ...]]:
    return [tuple(rate for log in arm if (rate := _rate(log, requests)) is not None) for arm in (off, on)]


def _rate(log: Log, requests: Sequence[int]) -> float | None:
    """Generated tokens a second over some requests: long ones weigh more."""
    some = [log.requests[number].done for number in requests if number < len(log.requests)]
    ended = [done for done in some if done is not None and done.decode_ms > 0]
    ms = sum(done.decode_ms for done in ended)
    return 1000 * sum(done.generated for done in ended) / ms if ms else None


def _prompt_speed(number: int, off: Sequence[Log], on: Sequence[Log]) -> Speed | None:
    """ms per window of one request; only where both arms did the same work, with as many tokens a window."""
    arms = [[log.requests[number] for log in arm if number < len(log.requests)] for arm in (off, on)]
    timed = [[found for found in arm if found.timing is not None and found.timing.windows] for arm in arms]
    if not all(timed):
        return None
    values = [tuple(found.timing.ms / found.timing.windows for found in arm if found.timing) for arm in timed]
    name = f"ms per window, request {number}"
    each = {_tokens_each(found) for arm in timed for found in arm}
    if len(each) > 1:
        low, high = min(each), max(each)
        return Speed(name, values[0], values[1], None, f"not comparable: {low:.3f} to {high:.3f} tokens per window")
    ended = any(log.requests[number].ended for log in (*off, *on) if number < len(log.requests))
    if ended and (other := _other_work(number, [*off, *on])):
        return Speed(name, values[0], values[1], None, f"not comparable: {other}")
    return _speed(name, values[0], values[1])


def _tokens_each(request: LoggedRequest) -> float:
    windows = request.timing.windows if request.timing is not None else 1
    if request.done is not None:
        return request.done.generated / windows
    steps = request.block.steps if request.block is not None else []
    return sum(step.x0 + 1 for _, step in steps if step.event == "V") / windows


def _speed(name: str, off: tuple[float, ...], on: tuple[float, ...], left: str = "") -> Speed:
    before, after = _mean(off), _mean(on)
    if min(len(off), len(on)) < 2:
        return Speed(name, off, on, None, "no claim: an arm of one run has no spread (run off, on, on, off)")
    if abs(after - before) <= max(_range(off), _range(on)):
        return Speed(name, off, on, None, "no claim: the spread within an arm is as wide as the difference")
    return Speed(name, off, on, after / before - 1, left)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)
