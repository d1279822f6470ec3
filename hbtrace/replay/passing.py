"""What goes to and from the library: programs and arrays by address, statuses as exceptions."""

from __future__ import annotations

import ctypes
from array import array
from typing import Final

import numpy as np
import numpy.typing as npt

from hbtrace.compiled.compile import HERE
from hbtrace.compiled.library import HEADER, constants
from hbtrace.replay.program import STEP, Program

CONSTANTS: Final = constants((HERE / HEADER).read_text(encoding="utf-8"))
"""The numbers of the header."""


def chunk(program: Program) -> tuple[int, ...]:
    """A program as the parameters from `code` to `forget` have it. The addresses are good while nobody appends to it.

    Raises ValueError for one that is cut off.
    """
    code, integers_of_code = _address(program.code)
    footprints, count = _address(program.footprints)
    bounds, ends = _address(program.bounds)
    pieces, integers = _address(program.pieces)
    if integers_of_code % STEP or ends != count + 1:
        raise ValueError("a step is cut off, or a footprint has no end")
    return code, integers_of_code // STEP, footprints, bounds, count, pieces, integers, program.forget_footprints


def _address(integers: array[int]) -> tuple[int, int]:
    """Where they lie, and how many there are."""
    return integers.buffer_info()


def integers(address: int, count: int) -> npt.NDArray[np.int64]:
    """What the library shows there; good until it is called again."""
    if not count:
        return np.empty(0, dtype=np.int64)
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), (count,))


def demand(status: int) -> None:
    """Raises MemoryError, and ValueError for what is no program or no batch."""
    if status == CONSTANTS["HB_NO_MEMORY"]:
        raise MemoryError
    if status == CONSTANTS["HB_BAD_BATCH"]:
        raise ValueError("a batch is not of the canonical schema")
    if status != CONSTANTS["HB_OK"]:
        raise ValueError("a step or a footprint that no program has")
