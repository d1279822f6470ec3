"""The memo of the lowering: rows that mean what they meant before become steps in the library, not in Python.

The lowering stays the only place that knows what a row means. What it made of a row is learnt under the row's key: the
values of the columns that its event has by the vocabulary, and its thread. The memo gives the same steps for an equal
key while all that the row needs (tensors, buffers, graphs, slots of events) is as it was; everything else goes back to
the lowering. What was found wrong with a row is told at each, so such rows are never learnt.
"""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Hashable, Iterable
from typing import Final

import pyarrow as pa

from hbtrace.compiled.library import UnusableError, the_library
from hbtrace.replay.accesses import Template
from hbtrace.replay.objects import Tensor
from hbtrace.replay.passing import demand, integers
from hbtrace.replay.windows import MANY_READS
from hbtrace.trace.schema import SCHEMA
from hbtrace.trace.vocabulary import EVENTS, Event

COUNTED: Final = ("issued", "computes", "direct_writes", "inferred_writes", "ubatches", "tokens", "reuse")
"""Counters of `Exercise` that a row of the memo adds to."""
_WINDOW: Final = 4096
"""Rows by which the memo is judged, over all batches. One that it does not know costs about as much more as one that it
knows saves: where it does not know most of them, the lowering goes on without it."""
_SHORTEST_PAUSE: Final = 1 << 13
_LONGEST_PAUSE: Final = 1 << 20
"""Rows for which a memo that knew little is not asked again; twice as many each time."""
_MOST_KEPT: Final = 1 << 16
"""Templates, versions, definitions and things that rows need, each: beyond, all is learnt anew."""


def learnable(event: Event) -> bool:
    """Whether rows of an event do nothing but what can be repeated: not those that end something or define what
    others do not name, and no write of a whole buffer, whose bytes are what was touched until then."""
    if event.role == "definition":
        return bool(event.used)
    return not event.whole and event.edge != "forget"


def key_columns(event: Event) -> tuple[str, ...]:
    """The columns that the meaning of its rows depends on, beside `ev`."""
    keys = event.used if event.role in ("definition", "marker") else ("thread", *event.keys)
    return tuple(key for key in keys if key in SCHEMA.names)


Definition = tuple[int, Tensor | Template, str]
"""What a known row defined: an id, a tensor or a graph, and its name."""


class _CStruct(ctypes.Structure):
    """Room for an ArrowArray or ArrowSchema of the C data interface: ten words at most."""

    _fields_ = (("words", ctypes.c_int64 * 10),)


def new_memo() -> Memo | None:
    """A memo for a new replay, None where this installation has no library."""
    try:
        return Memo(the_library())
    except UnusableError:
        return None


class Memo:
    """What rows came to. One lowering asks it row by row and tells it what it did not know."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        schema = _CStruct()
        SCHEMA._export_to_c(ctypes.addressof(schema))
        imported = pa.Schema._import_from_c  # what is exported must be given back
        self._memo = library.hb_memo_new(ctypes.addressof(schema))
        imported(ctypes.addressof(schema))
        if not self._memo:
            raise MemoryError
        weakref.finalize(self, library.hb_memo_free, self._memo)
        for name, event in EVENTS.items():
            if learnable(event):
                places = array("q", (SCHEMA.names.index(key) for key in key_columns(event)))
                demand(library.hb_memo_event(self._memo, name.encode(), *places.buffer_info()))
        self._places: dict[Hashable, int] = {}
        """Of what rows may need: its place among the versions."""
        self._contents: dict[tuple[Hashable, Hashable], int] = {}
        self._now: dict[Hashable, Hashable] = {}
        self._definitions: list[tuple[Hashable, Hashable, Definition]] = []
        """(what, content, what the lowering needs to define it again), by the name that the library has for it."""
        self.newest: tuple[Hashable, Hashable] | None = None
        """What was changed last, and to what."""
        self._templates: list[Template] = []
        self._numbers: dict[int, int] = {}
        self._versions = 0
        self.windows = NativeWindows(library, self._memo, self)
        """Windows that known rows count too."""
        self._pause = self._paused = 0
        self._known = self._missed = 0
        """Rows of the window so far."""
        self.asked = False
        """Whether the newest batch was given to the library."""

    # batches

    def take(self, batch: pa.RecordBatch, first: int) -> bool:
        """The next batch; whether the memo is to be asked of its rows."""
        self.windows.begin()
        kept = (self._contents, self._templates, self._numbers, self._definitions, self._places)
        if max(map(len, kept)) > _MOST_KEPT:
            self.forget()
            self.windows.forget_graphs()
            for one in kept:
                one.clear()
        if self._paused > 0:
            self._paused -= batch.num_rows
            self.asked = False
            return False
        room = _CStruct()
        batch._export_to_c(ctypes.addressof(room))
        demand(self._library.hb_memo_take(self._memo, ctypes.addressof(room), first))
        self.asked = True
        return True

    def replay(self, row: int, end: int, room: int, code: array[int]) -> int:
        """Do the rows from `row` on that are known, until `code` is longer by more than `room` integers; the next."""
        library, memo = self._library, self._memo
        after = library.hb_memo_replay(memo, row, end, max(room, 0))
        if after < 0:
            raise MemoryError
        self._known += after - row
        self._missed += after < end
        if after > row and (size := library.hb_memo_code_size(memo)):
            code.frombytes(ctypes.string_at(library.hb_memo_code(memo), 8 * size))
            library.hb_memo_code_taken(memo)
        return int(after)

    def poor(self) -> bool:
        """Whether the memo knew so little lately that asking it costs more than it saves: then it is left alone for a
        while, and so should be the rest of the batch."""
        if self._known + self._missed < _WINDOW:
            return False
        poor = self._missed > self._known
        self._known = self._missed = 0
        self._pause = min(max(_SHORTEST_PAUSE, 2 * self._pause), _LONGEST_PAUSE) if poor else 0
        self._paused = self._pause
        return poor

    def template(self, row: int) -> Template | None:
        """What a row of the newest batch accesses that the memo did."""
        number = self._library.hb_memo_shape(self._memo, row) if self.asked else -1
        return self._templates[number] if number >= 0 else None

    def counts(self) -> tuple[int, ...]:
        """What known rows added to the counters `COUNTED` since this was last asked."""
        found = integers(self._library.hb_memo_counts(self._memo), len(COUNTED)).tolist()
        self._library.hb_memo_counts_taken(self._memo)
        return tuple(found)

    # what rows need

    def changed(self, what: Hashable, content: Hashable) -> None:
        """Something that rows may need is this from now on. The same content again is the same version."""
        if content is None:
            self._now.pop(what, None)
        else:
            self._now[what] = content
        self.newest = what, content
        if (place := self._places.get(what)) is not None:
            self._version(place, what, content)

    def _version(self, place: int, what: Hashable, content: Hashable) -> int:
        """Say that it is that from now on: the number of this version."""
        version = self._contents.get((what, content))
        if version is None:
            version = self._contents[what, content] = self._versions
            self._versions += 1  # never given twice, also when contents are forgotten
        demand(self._library.hb_memo_version(self._memo, place, version))
        return version

    def _place(self, what: Hashable) -> int:
        place = self._places.get(what)
        if place is None:
            place = self._places[what] = len(self._places)
            self._version(place, what, self._now.get(what))
        return place

    def noted(self) -> None:
        """Something was noted that rows told before had nothing to say of."""
        self._library.hb_memo_noted(self._memo)

    def forget(self) -> None:
        """All that was learnt is void."""
        self._library.hb_memo_forget(self._memo)

    def learn(
        self, row: int, code: Iterable[int], needs: Iterable[Hashable], template: Template | None,
        counts: Iterable[int], *, until_noted: bool, definition: Definition | None = None,
    ) -> None:
        """What a row of the batch came to. definition: of one, what `defined` tells of its like later."""  # fmt: skip
        steps, places = array("q", code), [self._place(what) for what in needs]
        number = -1 if template is None else self.number(template)
        reads, writes, many = self.windows.told
        gives = (-1, -1, -1) if definition is None else self._given(definition)
        head = (len(steps) // 5, len(places), len(reads), len(writes), many, number, until_noted, *gives, *counts)
        lesson = array("q", head)
        lesson.extend(steps)
        lesson.extend((*places, *reads, *writes))
        demand(self._library.hb_memo_learn(self._memo, row, *lesson.buffer_info()))

    def _given(self, definition: Definition) -> tuple[int, int, int]:
        """Place and version that the newest definition gives, and its name."""
        assert self.newest is not None
        what, content = self.newest
        place = self._place(what)
        self._definitions.append((what, content, definition))
        return place, self._version(place, what, content), len(self._definitions) - 1

    def defined(self) -> list[tuple[int, Definition]]:
        """Definitions of known rows that changed something since this was last asked: row and definition, each."""
        size = self._library.hb_memo_defined_size(self._memo)
        if not size:
            return []
        flat = integers(self._library.hb_memo_defined(self._memo), size).tolist()
        self._library.hb_memo_defined_taken(self._memo)
        for name in flat[1::2]:
            what, content, _ = self._definitions[name]
            self._now[what] = content
        return [(row, self._definitions[name][2]) for row, name in zip(flat[::2], flat[1::2], strict=True)]

    def number(self, template: Template) -> int:
        number = self._numbers.get(id(template))
        if number is None:
            number = self._numbers[id(template)] = len(self._templates)
            self._templates.append(template)  # so that its id stays its own
        return number


class NativeWindows:
    """The twin of `windows.Windows`, in the library. `told`: what the rows since `begin` told it."""

    def __init__(self, library: ctypes.CDLL, memo: int, owner: Memo) -> None:
        self._library, self._memo, self._owner = library, memo, owner
        self._registered: set[int] = set()
        self.begin()

    def begin(self) -> None:
        """Another row begins."""
        self.told: tuple[list[int], list[int], int] = [], [], -1

    @property
    def count(self) -> int:
        return int(self._library.hb_memo_windows(self._memo))

    def issue(self, template: Template, row: int) -> None:
        """Queued work was issued in `row`."""
        roots = array("q", template.read_roots)
        if len(roots) <= MANY_READS:
            self.told = list(roots), [], -1
            demand(self._library.hb_memo_issue(self._memo, -1, *roots.buffer_info(), row))
            return
        number = self._owner.number(template)
        if number not in self._registered:
            self._registered.add(number)
            demand(self._library.hb_memo_many(self._memo, number, *roots.buffer_info()))
        self.told = [], [], number
        demand(self._library.hb_memo_issue(self._memo, number, *array("q").buffer_info(), row))

    def host_write(self, root: int, row: int) -> None:
        """The host writes a tensor in `row`."""
        self.told[1].append(root)
        demand(self._library.hb_memo_host_write(self._memo, root, row))

    def forget_graphs(self) -> None:
        """The lowering forgets its graphs."""
        self._registered.clear()
        self._library.hb_memo_forget_many(self._memo)
