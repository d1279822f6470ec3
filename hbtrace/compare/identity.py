"""The id of a distinct race: a hash of its signature. It holds no address, clock, count or time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import orjson

from hbtrace.replay.races import Signature

_DIGITS: Final = 6


def identities(signatures: Iterable[Signature]) -> dict[Signature, str]:
    """`R-` and the first six hex digits of each signature's hash; more digits where two of these collide."""
    hashes = {signature: hashlib.sha256(orjson.dumps(signature)).hexdigest() for signature in signatures}
    return {signature: f"R-{_shortest(digest, hashes.values())}" for signature, digest in hashes.items()}


def _shortest(digest: str, all_digests: Iterable[str]) -> str:
    digits = _DIGITS
    rivals = [other for other in all_digests if other != digest and other[:_DIGITS] == digest[:_DIGITS]]
    while any(other[:digits] == digest[:digits] for other in rivals):
        digits += 1
    return digest[:digits]
