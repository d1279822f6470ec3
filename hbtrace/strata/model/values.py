"""The bytes of the model: what windows, commits and the host compute, as pure functions of what they read.

A window's row depends on the state, on all cells before it and on its tokens so far, never on later tokens; a commit
folds the rows it keeps into the state. So a window on a wrong state, or a commit from one, changes every later byte.
"""

from __future__ import annotations

from hashlib import blake2b, shake_128
from typing import Final

ROW: Final = 8
"""Bytes of one token's row, cell or commit input."""

_FNV_OFFSET: Final = 1469598103934665603
"""Strata's own: a digit short of the standard one."""
_FNV_PRIME: Final = 1099511628211


def rows_of(state: bytes, cells: bytes, tokens: bytes, above: bytes, answer: bytes) -> bytes:
    """A window's rows, one of `ROW` bytes for each 4-byte token. above: the stage before's rows, empty on the first."""
    base = blake2b(state, digest_size=16)
    base.update(cells)
    base.update(answer)
    out = bytearray()
    for at in range(len(tokens) // 4):
        so_far = base.copy()
        so_far.update(tokens[: 4 * (at + 1)])
        so_far.update(above[: ROW * (at + 1)])
        out += so_far.digest()[:ROW]
    return bytes(out)


def committed(state: bytes, inputs: bytes, kept: int) -> bytes:
    """The state after a commit that keeps the first `kept` rows of a window's inputs."""
    seed = blake2b(state, digest_size=16)
    seed.update(bytes([kept]))
    seed.update(inputs[: ROW * kept])
    return shake_128(seed.digest()).digest(len(state))


def advanced(previous: bytes, token: int) -> bytes:
    """The host's two previous tokens, one token on."""
    return previous[4:8] + token.to_bytes(4, "little")


def token_of(request: int, seq: int, attempt: int, at: int, *, guess: bool) -> int:
    """The token at a place of a window. A wrong guess and what corrects it differ."""
    text = f"{request}/{seq}/{attempt}/{at}/{guess}".encode()
    return int.from_bytes(blake2b(text, digest_size=4).digest(), "little") % 50000


def fnv(data: bytes | bytearray) -> int:
    """FNV-1a 64 as Strata has it."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return value
