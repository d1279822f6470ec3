"""Each distinct race of a pass, told when it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hbtrace.replay.reports import Report, Signature

Tell = Callable[[Report], None]


def told(reports: Iterable[Report], tell: Tell | None) -> Iterator[Report]:
    """The reports as they are; the first of each distinct race is told. tell: None for nobody to tell."""
    if tell is None:
        yield from reports
        return
    seen: set[Signature] = set()
    for report in reports:
        if report.signature not in seen:
            seen.add(report.signature)
            tell(report)
        yield report
