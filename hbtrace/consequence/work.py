"""What judging the races of a trace may cost, counted: reads of racing bytes looked up, marked stretches gone over.

Both grow with the product of queues and reports, or of distinct races and rows. Recorded runs take a small part.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 8_000_000
"""A microsecond or two each."""
_BITS: Final = 4096
"""Sources a mark can hold before it costs as two."""


class Work:
    """Counts down. What is judged when it is used up stands; the rest is unknown."""

    def __init__(self) -> None:
        self._left = MOST

    @property
    def gone(self) -> bool:
        """Whether it is used up: nothing more is to be looked at."""
        return self._left <= 0

    def spend(self, count: int, sources: int = 0) -> None:
        """So many more, of marks that tell so many sources apart."""
        self._left -= count * (1 + sources // _BITS)
