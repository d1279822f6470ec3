"""The engine of the model: context, warm-up, prompt in ubatches, greedy decode. After llama_context.

It is the scheduler's caller: reuse or allocate, prepare, write the inputs, compute, read the output.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hbtrace.simulate.config import Config
from hbtrace.simulate.graph import INPUTS, LOGITS, VOCABULARY, Layer, Plan, ShapedGraph
from hbtrace.simulate.machine import Store, WordArray
from hbtrace.simulate.sched import ID, Equipment, ModelScheduler, layer_backend
from hbtrace.simulate.tape import GgmlTape, ModelTensor

_WEIGHT_WORDS = 16
_DIRECT = INPUTS[2:]


class GgmlEngine:
    """Make it, `run` it; then its tape has all rows and steps."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.tape = GgmlTape()
        self.tape.row(
            "meta", version=1, producer="hbtrace simulate ggml", engine="model of the ggml scheduler", threads="one",
            env={"GGML_SCHED_UMA_RING": str(config.ring)}, notes=_notes(config),
        )  # fmt: skip
        self.devices = list(range(len(config.devices)))
        self._backends()
        self._buffers()
        self.sched = self._scheduler()
        self._load()
        self._ubatch = self._past = 0
        self._event = -1

    def run(self) -> None:
        """The whole run, warm-up to teardown."""
        self.tape.row("sched_alloc", sched=ID, reserve=True)
        if self.config.warmup:
            self._warm_up()
        done = 0
        while done < self.config.prompt:
            tokens = min(self.config.ubatch, self.config.prompt - done)
            done += tokens
            self._batch(tokens, "prefill", last=done == self.config.prompt)
        self._read_output()
        for number in range(self.config.decode):
            final = number == self.config.decode - 1
            self._batch(1, "decode", last=True, final=final)
            if final and self.config.fault == "buffer-freed":
                self.tape.free(self.caches[self.sched.plan.layers[-1].backend])
            self._read_output(early=final and self.config.fault == "output-read-early")
        self._end()

    # set-up

    def _backends(self) -> None:
        config, tape = self.config, self.tape
        for device in config.devices:
            accepts = [device.name, config.host_type] if config.on_host(device) else [device.name]
            tape.backend(device.name, **device.attributes, accepts=accepts)
        self.cpu = tape.backend(
            "CPU", device="CPU", type="cpu", events=False, integrated=False, host_buffer=False,
            accepts=["CPU", config.host_type], synchronous=True, **{"async": False},
        )  # fmt: skip

    def _buffers(self) -> None:
        config, tape = self.config, self.tape
        width, layers = config.ubatch, config.layers
        room = (len(INPUTS) * max(config.depth, 1) + (len(INPUTS) + layers + 4) * config.copies) + 5 * layers + 8
        self.host = tape.buffer(config.host_type, room * width + LOGITS, host=True, usage="compute")
        self.output_buffer = tape.buffer(config.host_type, LOGITS, host=True)
        self.table_buffer = tape.buffer(config.host_type, VOCABULARY, host=True, usage="weights")
        self.context = config.prompt + config.decode + 1
        self.home, self.weights, self.caches = {self.cpu: self.host}, [], []
        for backend, device in enumerate(config.devices):
            owned = {"backend": backend, "device": device.name}
            count = sum(layer_backend(i, layers, len(config.devices)) == backend for i in range(layers))
            self.home[backend] = tape.buffer(device.name, room * width + LOGITS, usage="compute", **owned)
            words = VOCABULARY + _WEIGHT_WORDS * (count + 1)
            self.weights.append(tape.buffer(device.name, words, usage="weights", **owned))
            split_off = config.fault == "placement" and backend == 0
            name, host = (config.host_type, {"host": True}) if split_off else (device.name, {})
            self.caches.append(tape.buffer(name, max(1, count) * self.context, **owned, **host))
            tape.clear(self.caches[-1])

    def _scheduler(self) -> ModelScheduler:
        config, tape = self.config, self.tape
        site = Equipment(
            [*self.devices, self.cpu],
            self.host,
            self.home,
            {b: {self.home[b], self.weights[b], self.caches[b]} for b in self.devices},
            {b for b in self.devices if not config.devices[b].attributes["synchronous"]},
            {b for b in self.devices if config.devices[b].events},
        )
        hosts = {self.host, self.output_buffer, self.table_buffer}
        for backend, device in enumerate(config.devices):
            site.accepts[backend] |= hosts if config.on_host(device) else set()
        site.accepts[self.cpu] = hosts | ({self.caches[0]} if config.fault == "placement" else set())
        tape.row(
            "sched", id=ID, backends=site.backends, cpu_buffer_type=config.host_type, copies=config.copies,
            ring=config.depth,
        )  # fmt: skip
        return ModelScheduler(tape, config, site, self._plan())

    def _plan(self) -> Plan:
        config, tape = self.config, self.tape
        layers, counts = [], dict.fromkeys(self.devices, 0)
        for index in range(config.layers):
            backend = layer_backend(index, config.layers, len(config.devices))
            k = counts[backend]
            counts[backend] += 1
            weight = tape.tensor(
                f"blk.{index}.attn_k.weight", _WEIGHT_WORDS, self.weights[backend], VOCABULARY + k * _WEIGHT_WORDS
            )
            cache = tape.tensor(f"cache_k_l{index}", self.context, self.caches[backend], k * self.context)
            view = tape.tensor(
                f"cache_k_l{index} (view)", self.context, self.caches[backend], k * self.context, root=cache
            )
            layers.append(Layer(backend, weight, cache, view))
        last = layers[-1].backend
        place = VOCABULARY + counts[last] * _WEIGHT_WORDS
        output = tape.tensor("output.weight", LOGITS, self.weights[last], place)
        on_cpu = config.cpu_embd or not config.on_host(config.devices[0])
        table = tape.tensor("token_embd.weight", VOCABULARY, self.table_buffer if on_cpu else self.weights[0], 0)
        split_off = 0 if config.fault == "placement" else -1
        return Plan(layers, table, output, self.cpu if on_cpu else 0, self.cpu, config.cpu_ops, split_off)

    def _load(self) -> None:
        plan = self.sched.plan
        for number, tensor in enumerate([plan.table, plan.output, *(layer.weight for layer in plan.layers)]):
            self.tape.set(tensor, _constant((np.arange(tensor.words) * 131 + number * 17 + 5) % 9973))
        self.output = self.tape.tensor("output", LOGITS, self.output_buffer, 0)

    # the loop

    def _warm_up(self) -> None:
        self._batch(1, "warmup", last=True)
        self._read_output(count=False)
        self._past = 0
        for cache in self.caches:
            self.tape.clear(cache)

    def _batch(self, tokens: int, phase: str, *, last: bool, final: bool = False) -> None:
        """One ubatch: process_ubatch of llama_context."""
        tape, sched, fault = self.tape, self.sched, self.config.fault
        tape.ubatch = self._ubatch
        shape = sched.current
        if shape is not None and shape.tokens == tokens and self._may_reuse(phase):
            if self.config.pipeline:
                sched.synchronize()
            sched.reuse()
            if fault != "prepare-forgotten":
                force = fault == "ring-rotates-in-decode" and phase == "decode"
                sched.prepare(force=force, stamp=not (fault == "uid-not-stamped" and phase == "prefill" and last))
        else:
            shape = sched.allocate(tokens)
        tape.row("ubatch", sched=ID, n=self._ubatch, tokens=tokens, phase=phase)
        self._inputs(shape, phase)
        sched.compute()
        self._stray_events(final=final)
        self._past += tokens
        self._ubatch += 1

    def _may_reuse(self, phase: str) -> bool:
        """A prefill over several devices sees a longer cache with each ubatch, and its graph is built anew."""
        return phase != "prefill" or (self.config.reuse and not self.config.pipeline)

    def _inputs(self, shape: ShapedGraph, phase: str) -> None:
        past, tokens, tape = self._past, shape.tokens, self.tape
        rows = past + np.arange(tokens)

        def words(memory: Store) -> WordArray:
            if phase == "decode":
                return np.array([memory.results[-1] % VOCABULARY])
            # with no period that is one of a ubatch: equal inputs would hide that they were mixed up
            return np.asarray((rows * rows // 3 * 29 + rows) % VOCABULARY, dtype=np.int64)

        values: dict[str, Callable[[Store], WordArray]] = {
            "inp_tokens": words,
            "inp_pos": _constant(rows),
            "attn_inp_k_idxs": _constant(rows),
            "attn_inp_kq_mask": _constant(rows + 1),
            "inp_out_ids": _constant(np.array([tokens - 1])),
        }
        for name, tensor in shape.inputs.items():
            tape.set(tensor, values[name], direct=name in _DIRECT)

    def _read_output(self, *, early: bool = False, count: bool = True) -> None:
        """Get the logits and pick the next token."""
        shape = self.sched.current
        if shape is None:
            return
        where = self.sched.plan.layers[-1].backend
        self.tape.get_async(where, shape.logits, self.output)

        def pick(memory: Store, logits: WordArray) -> None:
            if count:
                memory.results.append(int(logits.sum()) * LOGITS + int(logits.argmax()))

        if early:
            self.tape.read(self.output, pick)
        self.sched.synchronize()
        if not early:
            self.tape.read(self.output, pick)

    def _stray_events(self, *, final: bool) -> None:
        """Events that only the faults have."""
        tape, fault = self.tape, self.config.fault
        if fault == "event-recorded-again":
            if self._ubatch == 0:
                self._event = tape.new_event()
            tape.event_record(self.devices[0], self._event)
            tape.event_wait(self.devices[1], self._event)
            tape.event_record(self.devices[0], self._event)
        elif fault == "event-freed" and final:
            event = tape.new_event()
            tape.event_record(self.devices[0], event)
            tape.event_free(event)

    # the end

    def _end(self) -> None:
        """Free everything, the results of the run being read already."""
        tape, fault = self.tape, self.config.fault
        tape.ubatch = -1
        inputs = self.sched.current.inputs if self.sched.current is not None else {}
        if fault == "queue-freed":
            self.sched.compute()
            tape.row("backend_free", backend=self.sched.plan.layers[-1].backend)
            return
        for buffer in self.home.values():
            tape.free(buffer)
        if fault == "use-after-free":
            first: ModelTensor = next(iter(inputs.values()))
            tape.set(first, _constant(np.zeros(first.words, dtype=np.int64)))
        for backend in (*self.devices, self.cpu):
            tape.row("backend_free", backend=backend)


def _constant(values: WordArray) -> Callable[[Store], WordArray]:
    return lambda _: values


def _notes(config: Config) -> str:
    words = "no fault" if config.fault is None else f"fault {config.fault}"
    return f"a model, not a recording: {words}"
