"""Counts windows: host writes of a tensor that work issued since its last write reads.

There an input race can be, whether it is one or not. A run without windows proves nothing about input races.
"""

from __future__ import annotations

from typing import Final

from hbtrace.replay.accesses import Template

MANY_READS: Final = 16
"""Templates with more reads are asked when they were issued last; going through their reads each time would cost."""


class Windows:
    """Tensors are told by the id of their root."""

    def __init__(self) -> None:
        self.count = 0
        self._last_read: dict[int, int] = {}
        self._last_write: dict[int, int] = {}
        self._readers: dict[int, list[Template]] = {}
        self._registered: set[int] = set()
        self._kept: list[Template] = []

    def issue(self, template: Template, row: int) -> None:
        """Queued work was issued in `row`."""
        roots = template.read_roots
        if len(roots) <= MANY_READS:
            for root in roots:
                self._last_read[root] = row
            return
        template.issued = row
        if id(template) not in self._registered:
            self._registered.add(id(template))
            self._kept.append(template)  # its id stays its own
            for root in roots:
                self._readers.setdefault(root, []).append(template)

    def host_write(self, root: int, row: int) -> None:
        """The host writes a tensor in `row`."""
        written = self._last_write.get(root, -1)
        read = self._last_read.get(root, -1)
        if read > written or any(t.issued > written for t in self._readers.get(root, ())):
            self.count += 1
        self._last_write[root] = row

    def forget_graphs(self) -> None:
        """The lowering forgets its graphs: what they read last is kept as if each read had been told."""
        for root, templates in self._readers.items():
            self._last_read[root] = max(self._last_read.get(root, -1), *(t.issued for t in templates))
        self._readers.clear()
        self._registered.clear()
        self._kept.clear()
