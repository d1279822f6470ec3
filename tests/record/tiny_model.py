"""A model of llama's architecture with random weights, in a GGUF file: a few MB, the same bytes every time."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_U32, _F32, _STRING, _ARRAY, _I32 = 4, 6, 8, 9, 5
_ALIGNMENT = 32


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; the default has 2.7 MB."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 256


def write_model(path: Path, shape: Shape = Shape()) -> None:
    """Write the model's file."""
    tokens = _tokens()
    tensors = _tensors(shape, len(tokens))
    with path.open("wb") as stream:
        keys = _keys(shape, tokens)
        stream.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
        for name, kind, value in keys:
            stream.write(_text(name) + struct.pack("<I", kind) + _value(kind, value))
        _write_tensors(stream, tensors)


def _write_tensors(stream: BinaryIO, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    offset = 0
    for name, array in tensors.items():
        stream.write(_text(name) + struct.pack("<I", array.ndim))
        stream.write(struct.pack(f"<{array.ndim}Q", *reversed(array.shape)) + struct.pack("<IQ", 0, offset))
        offset += _padded(array.nbytes)
    stream.write(b"\0" * (-stream.tell() % _ALIGNMENT))
    for array in tensors.values():
        stream.write(array.tobytes() + b"\0" * (_padded(array.nbytes) - array.nbytes))


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _text(value)
    if kind == _ARRAY:
        inner, items = value
        return struct.pack("<IQ", inner, len(items)) + b"".join(_value(inner, item) for item in items)
    return struct.pack({_U32: "<I", _I32: "<i", _F32: "<f"}[kind], value)


def _tokens() -> list[tuple[str, float, int]]:
    """Text, score and kind: three specials, the 256 bytes, and a few pieces so that the tokenizer is whole."""
    tokens = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    tokens += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    pieces = ["\u2581", *(chr(code) for code in range(97, 123)), "\u2581the", "ing"]
    return tokens + [(piece, -float(i), 1) for i, piece in enumerate(pieces)]


def _keys(shape: Shape, tokens: list[tuple[str, float, int]]) -> list[tuple[str, int, Any]]:
    texts, scores, kinds = zip(*tokens, strict=True)
    return [
        ("general.architecture", _STRING, "llama"),
        ("general.name", _STRING, "hbtrace-test"),
        ("general.file_type", _U32, 0),
        ("llama.context_length", _U32, 4096),
        ("llama.embedding_length", _U32, shape.width),
        ("llama.block_count", _U32, shape.layers),
        ("llama.feed_forward_length", _U32, shape.feed_forward),
        ("llama.attention.head_count", _U32, shape.heads),
        ("llama.attention.head_count_kv", _U32, shape.kv_heads),
        ("llama.attention.layer_norm_rms_epsilon", _F32, 1e-5),
        ("llama.rope.dimension_count", _U32, shape.width // shape.heads),
        ("llama.vocab_size", _U32, len(tokens)),
        ("tokenizer.ggml.model", _STRING, "llama"),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, texts)),
        ("tokenizer.ggml.scores", _ARRAY, (_F32, scores)),
        ("tokenizer.ggml.token_type", _ARRAY, (_I32, kinds)),
        ("tokenizer.ggml.bos_token_id", _U32, 1),
        ("tokenizer.ggml.eos_token_id", _U32, 2),
        ("tokenizer.ggml.unknown_token_id", _U32, 0),
    ]


def _tensors(shape: Shape, vocabulary: int) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(1)
    width = shape.width
    kv_width = width // shape.heads * shape.kv_heads

    def weights(rows: int, columns: int) -> np.ndarray[Any, Any]:
        return (random.standard_normal((rows, columns)) / np.sqrt(columns)).astype("<f4")

    tensors = {
        "token_embd.weight": weights(vocabulary, width),
        "output_norm.weight": np.ones(width, "<f4"),
        "output.weight": weights(vocabulary, width),
    }
    for layer in range(shape.layers):
        tensors |= {
            f"blk.{layer}.attn_norm.weight": np.ones(width, "<f4"),
            f"blk.{layer}.attn_q.weight": weights(width, width),
            f"blk.{layer}.attn_k.weight": weights(kv_width, width),
            f"blk.{layer}.attn_v.weight": weights(kv_width, width),
            f"blk.{layer}.attn_output.weight": weights(width, width),
            f"blk.{layer}.ffn_norm.weight": np.ones(width, "<f4"),
            f"blk.{layer}.ffn_gate.weight": weights(shape.feed_forward, width),
            f"blk.{layer}.ffn_up.weight": weights(shape.feed_forward, width),
            f"blk.{layer}.ffn_down.weight": weights(width, shape.feed_forward),
        }
    return tensors
