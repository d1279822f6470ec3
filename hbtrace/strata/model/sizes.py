"""How large a stage's recurrent state is, and what the ring does not copy: pure functions of layers and sizes."""

from __future__ import annotations

from dataclasses import dataclass

FLOAT = 4


@dataclass(frozen=True, slots=True)
class LayerSize:
    """One GDN layer's state: a matrix for each value head, and the convolution's history.

    The defaults fit the seed's model (inferred: nine such layers are its 29.4 MB, to the byte it prints).
    """

    value_heads: int = 48
    key_dim: int = 128
    value_dim: int = 128
    conv_channels: int = 10240
    conv_width: int = 4

    @property
    def bytes(self) -> int:
        matrix = self.value_heads * self.key_dim * self.value_dim
        history = self.conv_channels * (self.conv_width - 1)
        return FLOAT * (matrix + history)


@dataclass(frozen=True, slots=True)
class Saved:
    """What the ring saves in one window of one front stage, in bytes."""

    copied: int
    """The state that a snapshot copies."""
    traffic: int
    """Read and written by that copy, beside the window's own memory traffic."""


def saved_each_window(layers: int, layer: LayerSize | int | None = None) -> Saved:
    """Bytes that a window of one front stage need not copy. layer: its size, in bytes or by its parts."""
    layer = LayerSize() if layer is None else layer
    copied = layers * (layer if isinstance(layer, int) else layer.bytes)
    return Saved(copied, 2 * copied)


def megabytes(count: int) -> str:
    """As the seed prints them: decimal megabytes with one digit."""
    return f"{count / 1e6:.1f} MB"
