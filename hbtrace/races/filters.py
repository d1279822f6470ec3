"""Filters: which races are shown. The replay never changes, and what is left out is counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Final

from hbtrace.errors import UsageError
from hbtrace.escape import harmless
from hbtrace.races.identity import SHORTEST, full_identity, tensor_names
from hbtrace.replay.reports import KINDS, Access, Report, Signature

Span = tuple[int, int]
"""Inclusive numbers, lowest and highest."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Of one option any value may match; different options must all match. Globs; spans for numbers.

    A tensor, actor, label, split or ubatch option looks at both sides; a tensor option at name and root, and at what
    outputs call them; an actor option at the name as reports print it (`GPU0#1`) and as signatures have it (`GPU0`).
    kind: also by its letters (`WAR`), in any case; it is kept spelled out.
    One glob, number or span may stand without its tuple. Raises UsageError for what would silently match nothing.
    """

    tensor: tuple[str, ...] = ()
    buffer: tuple[str, ...] = ()
    actor: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    split: tuple[Span, ...] = ()
    ubatch: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        for one in fields(self):
            whole = _spans if one.name in ("split", "ubatch") else _texts
            object.__setattr__(self, one.name, whole(one.name, getattr(self, one.name)))
        try:
            object.__setattr__(self, "kind", whole_kinds(self.kind))
        except UsageError as error:
            raise UsageError(f"Filters: kind {error}") from None
        if wrong := [pattern for pattern in self.ids if not _can_be_id(pattern)]:
            told = ", ".join(harmless(pattern) or repr(pattern) for pattern in wrong)
            shape = "R- and at least six digits of 0-9 a-f, or a glob for one"
            raise UsageError(f"--id {told}: is no id of a race, which is {shape}")

    def accepts(self, report: Report) -> bool:
        """All options but `ids`, which are known only when all signatures are."""
        sides = (report.earlier, report.current)
        return (
            _globs(self.tensor, lambda: tensor_names(report))
            and _globs(self.buffer, lambda: (report.buffer,))
            and _globs(self.actor, lambda: _actors(report))
            and _globs(self.label, lambda: (a.label for a in sides))
            and _globs(self.kind, lambda: (report.kind,))
            and _within(self.split, sides, "split")
            and _within(self.ubatch, sides, "ubatch")
        )

    def accepts_id(self, canonical: Signature, ident: str) -> bool:
        """An id that is whole, or longer by digits of a collision elsewhere, names the same race in every run."""
        return not self.ids or any(is_id_of(pattern, canonical, ident) for pattern in self.ids)

    def shows(self, report: Report, ids: Mapping[Signature, str]) -> bool:
        """All options. ids: of the distinct races, by canonical signature."""
        return self.accepts(report) and self.accepts_id(report.canonical, ids[report.canonical])

    def used(self) -> list[str]:
        """The options that were given, as they are spelled."""
        return [one.name.replace("ids", "id") for one in fields(self) if getattr(self, one.name)]

    def __bool__(self) -> bool:
        return bool(self.used())


def _actors(report: Report) -> tuple[str, ...]:
    """Both sides' actors, as reports print them and as signatures have them."""
    return report.earlier.actor, report.current.actor, report.signature[2], report.signature[5]


def whole_kinds(given: Iterable[str]) -> tuple[str, ...]:
    """Kinds of race, of globs for them or for their letters, in any case. Raises UsageError for one that is none."""
    out: dict[str, None] = {}
    for glob in given:
        found = [kind for kind in KINDS if any(fnmatchcase(name, glob.lower()) for name in (kind, letters(kind)))]
        if not found:
            every = ", ".join(f"{kind} ({letters(kind).upper()})" for kind in KINDS)
            raise UsageError(f"{glob!r} is none of {every}, nor a glob for one")
        out.update(dict.fromkeys(found))
    return tuple(out)


def letters(kind: str) -> str:
    """`war`, `waw` or `raw`."""
    return "".join(word[0] for word in kind.split("-"))


def _texts(name: str, given: Any) -> tuple[str, ...]:
    """A text by itself would be taken for its letters."""
    texts = (given,) if isinstance(given, str) else _elements(name, given, "a glob, or a tuple of globs")
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"Filters: {name} is a glob, or a tuple of globs, not {given!r}")
    return texts


def _spans(name: str, given: Any) -> tuple[Span, ...]:
    """A number is the span of only this, and two numbers are one span."""
    what = "a span such as (2, 5), or a tuple of spans"
    if _is_number(given):
        return ((given, given),)
    spans = _elements(name, given, what)
    if len(spans) == 2 and all(map(_is_number, spans)):
        spans = (spans,)
    for span in spans:
        if not (isinstance(span, (tuple, list)) and len(span) == 2 and all(map(_is_number, span))):
            raise UsageError(f"Filters: {name} is {what}, not {given!r}")
        if span[1] < span[0]:
            raise UsageError(f"Filters: {name} {span!r} ends before it begins")
    return tuple((lo, hi) for lo, hi in spans)


def _is_number(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _elements(name: str, given: Any, what: str) -> tuple[Any, ...]:
    try:
        return tuple(given)
    except TypeError:
        raise UsageError(f"Filters: {name} is {what}, not {given!r}") from None


def _can_be_id(pattern: str) -> bool:
    """Whether some race can have this id. Another one would hide every race for ever; an id that is gone may not."""
    head = _HEAD.match(pattern)
    return head is not None and (head.end() < len(pattern) or len(pattern) >= SHORTEST)


_HEAD: Final = re.compile(r"(?:R-[0-9a-f]*)(?=[*?\[]|\Z)|R?(?=[*?\[])")
"""What may stand in an id before the first character of a glob."""


def is_id_of(pattern: str, canonical: Signature, ident: str) -> bool:
    """Whether a glob, or an id of six digits or more, means this race."""
    return fnmatchcase(ident, pattern) or (len(pattern) >= SHORTEST and full_identity(canonical).startswith(pattern))


def _globs(patterns: tuple[str, ...], values: Callable[[], Iterable[str | None]]) -> bool:
    return not patterns or any(fnmatchcase(v, p) for v in values() if v is not None for p in patterns)


def _within(spans: tuple[Span, ...], sides: tuple[Access, ...], key: str) -> bool:
    return not spans or any(lo <= getattr(a, key) <= hi for a in sides for lo, hi in spans)
