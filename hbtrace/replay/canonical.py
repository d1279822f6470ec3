"""Names as they count for what is the same race: without the slot of a copy, a layer's number, or no name at all."""

from __future__ import annotations

import re
from typing import Final

_SCHED_COPY: Final = re.compile(r"([^#]*#.*)#[0-9]+", re.DOTALL)
_LAYER_ENDING: Final = re.compile(r"(-|_l)[0-9]+\Z")
_LAYER_BLOCK: Final = re.compile(r"blk\.[0-9]+\.")
_UNNAMED: Final = re.compile(r"(?:[^#]*#)?(?:leaf|node)_[0-9]+(?:#[0-9]+)?|")


def fold_layers(name: str) -> str:
    """`*` for the number of a layer: in a `-N` or `_lN` ending, and in `blk.N.` anywhere."""
    return _LAYER_BLOCK.sub("blk.*.", _LAYER_ENDING.sub(r"\1*", name))


def without_slot(name: str) -> str:
    """A scheduler's copy is named `backend#tensor#slot`; its slot does not tell races apart."""
    copy = _SCHED_COPY.fullmatch(name)
    return copy[1] if copy else name


def is_unnamed(name: str) -> bool:
    """Whether ggml numbered a tensor for want of a name (`leaf_7`, `node_12`, a scheduler's copy of such a one)."""
    return _UNNAMED.fullmatch(name) is not None
