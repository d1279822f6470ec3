"""The graph of the model: a small transformer over integers, and the memory of its intermediate tensors.

Attention reads all earlier keys from the cache, so that one wrong input reaches every later result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hbtrace.simulate.machine import PRIME, WORD, WordArray
from hbtrace.simulate.tape import GgmlTape, ModelNode, ModelTensor

Function = Callable[[WordArray, list[WordArray]], None]

VOCABULARY: Final = 64
LOGITS: Final = 8

INPUTS: Final = ("inp_tokens", "inp_pos", "attn_inp_k_idxs", "attn_inp_kq_mask", "inp_out_ids")
"""Graph inputs; those from the third on are written through `tensor->data`."""


@dataclass(slots=True)
class Layer:
    """What outlives a graph: weights and cache of a layer, and its backend."""

    backend: int
    weight: ModelTensor
    cache: ModelTensor
    view: ModelTensor


@dataclass(slots=True, eq=False)
class ShapedGraph:
    """The graph for ubatches of so many tokens: its inputs and nodes, and the copies that splits are fed by."""

    tokens: int
    inputs: dict[str, ModelTensor]
    nodes: list[ModelNode]
    logits: ModelTensor
    splits: list[Split] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Split:
    """Nodes of one backend in a row; `feeds` are the tensors copied for it, by slot of the scheduler's copies."""

    backend: int
    nodes: list[ModelNode]
    graph: int
    uid: int = 0
    feeds: dict[ModelTensor, list[ModelTensor]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What every shape of the graph has in common. `head` is the backend of the token look-up."""

    layers: list[Layer]
    table: ModelTensor
    output: ModelTensor
    head: int
    cpu: int
    cpu_ops: bool = False
    split_off: int = -1
    """The layer whose SET_ROWS is put on the CPU, wherever its cache is."""


def build(
    tape: GgmlTape, plan: Plan, inputs: dict[str, ModelTensor], tokens: int
) -> tuple[list[ModelNode], ModelTensor]:
    """All nodes in order, and the result. Their outputs have no memory yet."""
    nodes: list[ModelNode] = []

    def node(
        op: str, function: Function, name: str, backend: int, *sources: ModelTensor, words: int = tokens
    ) -> ModelTensor:
        out = tape.fresh(name, words)
        nodes.append(ModelNode(op, out, list(sources), function, backend))
        return out

    positions = inputs["inp_pos"]
    last = node("GET_ROWS", get_rows, "embd", plan.head, plan.table, inputs["inp_tokens"])
    extra = [node("SCALE", scale, "pos_scaled", plan.cpu, positions)] if plan.cpu_ops else []
    for index, layer in enumerate(plan.layers):
        here = layer.backend
        norm = node("RMS_NORM", rms_norm, f"norm-{index}", here, last, layer.weight)
        keys = node("MUL_MAT", key, f"Kcur-{index}", here, norm, layer.weight, positions)
        writer = plan.cpu if index == plan.split_off else here
        nodes.append(ModelNode("SET_ROWS", layer.view, [keys, inputs["attn_inp_k_idxs"], layer.view], set_rows, writer))
        mask = inputs["attn_inp_kq_mask"]
        seen = node("FLASH_ATTN_EXT", attention, f"kqv_out-{index}", here, norm, layer.view, mask, *extra)
        last = node("ADD", add, f"l_out-{index}", here, seen, last)
        extra = []
        if plan.cpu_ops and index == 0:
            extra = [node("SQR", square, "pos_squared", plan.cpu, positions)]
    where = plan.layers[-1].backend
    if extra:
        last = node("ADD", add, "l_out", where, last, extra[0])
    return nodes, node(
        "MUL_MAT", result, "result_output", where, last, inputs["inp_out_ids"], plan.output, words=LOGITS
    )


def get_rows(out: WordArray, sources: list[WordArray]) -> None:
    table, tokens = sources
    out[:] = table[tokens % VOCABULARY]


def rms_norm(out: WordArray, sources: list[WordArray]) -> None:
    out[:] = (sources[0] * 3 + sources[1][0] + 1) % PRIME


def key(out: WordArray, sources: list[WordArray]) -> None:
    norm, weight, positions = sources
    out[:] = (norm * weight[0] + positions) % PRIME


def set_rows(out: WordArray, sources: list[WordArray]) -> None:
    keys, rows = sources[:2]
    out[rows % len(out)] = keys


def attention(out: WordArray, sources: list[WordArray]) -> None:
    norm, cache, mask = sources[:3]
    seen = np.cumsum(cache) % PRIME
    out[:] = (norm + seen[(mask - 1) % len(cache)] + sum(sources[3:])) % PRIME


def add(out: WordArray, sources: list[WordArray]) -> None:
    out[:] = (sources[0] * 5 + sources[1]) % PRIME


def scale(out: WordArray, sources: list[WordArray]) -> None:
    out[:] = sources[0] * 7 % PRIME


def square(out: WordArray, sources: list[WordArray]) -> None:
    out[:] = sources[0] * sources[0] % PRIME


def result(out: WordArray, sources: list[WordArray]) -> None:
    last, rows, weight = sources
    out[:] = (last[rows[0] % len(last)] * (weight[:LOGITS] + 1) + weight[:LOGITS]) % PRIME


class Pool:
    """A graph allocator's memory of one buffer: first fit, and what is given back is used again."""

    def __init__(self, start: int) -> None:
        self._free: list[tuple[int, int]] = []
        self._end = start

    def take(self, words: int) -> int:
        for index, (lo, hi) in enumerate(self._free):
            if hi - lo >= words:
                self._free[index] = (lo + words, hi)
                return lo
        lo, self._end = self._end, self._end + words
        return lo

    def give(self, word: int, words: int) -> None:
        self._free.append((word, word + words))


@dataclass(slots=True)
class Intermediates:
    """Where intermediate tensors go: behind word `start` of the buffer that is a backend's `home`."""

    home: dict[int, int]
    start: dict[int, int]
    quarantined: Callable[[ModelTensor, list[ModelNode]], bool]


def consumers(nodes: Sequence[ModelNode]) -> dict[ModelTensor, list[ModelNode]]:
    """Who reads each tensor, in order."""
    found: dict[ModelTensor, list[ModelNode]] = {}
    for node in nodes:
        for source in node.sources:
            found.setdefault(source.owner, []).append(node)
    return found


def take_memory(tape: GgmlTape, nodes: Sequence[ModelNode], memory: Intermediates) -> None:
    """Place the outputs of the nodes. A tensor's memory returns behind its last consumer, unless it is quarantined."""
    pools = {buffer: Pool(word) for buffer, word in memory.start.items()}
    readers = consumers(nodes)
    placed: set[ModelTensor] = set()
    for node in nodes:
        out = node.out
        if not node.aliases:
            out.buffer = memory.home[node.backend]
            out.offset = pools[out.buffer].take(out.words) * WORD
            placed.add(out)
            tape.define(out)
        for source in dict.fromkeys(source.owner for source in node.sources):
            if source in placed and readers[source][-1] is node and not memory.quarantined(source, readers[source]):
                pools[source.buffer].give(source.offset // WORD, source.words)
