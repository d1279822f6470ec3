"""Which kernel replays: the compiled one where this installation has it, else its twin in Python.

Nobody else chooses.
"""

from __future__ import annotations

import warnings

from hbtrace.compiled.library import UnusableError, the_library
from hbtrace.errors import SlowKernelWarning
from hbtrace.replay.clocks import Clocks
from hbtrace.replay.kernel import Kernel
from hbtrace.replay.native_clocks import NativeClocks
from hbtrace.replay.native_kernel import NativeKernel

AnyKernel = Kernel | NativeKernel
AnyClocks = Clocks | NativeClocks


def new_kernel(*, ordered: bool) -> AnyKernel:
    """The kernel of this installation, for a new replay. Warns where a compiled one cannot be used though it is there.

    ordered: each host thread is an actor of its own.
    """
    why = reason()
    if why is None:
        return NativeKernel(closed=not ordered)
    if why.told:
        warnings.warn(f"hbtrace replays in Python, slowly: {why}", SlowKernelWarning, stacklevel=2)
    return Kernel(closed=not ordered)


def new_clocks() -> AnyClocks:
    """The clocks of this installation, for the order of one trace."""
    return NativeClocks() if reason() is None else Clocks()


def reason() -> UnusableError | None:
    """Why the Python kernel replays, None where the compiled one does."""
    try:
        the_library()
    except UnusableError as error:
        return error
    return None


def described() -> str:
    """Which kernel replays, and why not the other one: for people."""
    why = reason()
    return "compiled kernel" if why is None else f"Python kernel: {why}"
