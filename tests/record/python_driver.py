"""The driver again, in Python: libraries loaded by ctypes, so that no symbol of them is in the global scope.

Works with versions years apart: of their parameter structs it knows the fields that all have at the same place.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

_P, _I, _U, _F, _B = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_bool
_REST = ("rest", ctypes.c_char * 512)
"""More than any version's struct has: passed in memory by value, the callee reads what it knows of."""


class _Model(ctypes.Structure):
    _fields_ = (("devices", _P), ("overrides", _P), ("gpu_layers", _I), _REST)


class _Context(ctypes.Structure):
    _fields_ = (("context", _U), ("batch", _U), ("ubatch", _U), _REST)


class _Batch(ctypes.Structure):
    _fields_ = (
        ("count", _I), ("tokens", _P), ("embeddings", _P), ("positions", _P), ("sequence_counts", _P),
        ("sequences", _P), ("outputs", _P),
    )  # fmt: skip


_RESULTS = {
    "llama_model_default_params": _Model,
    "llama_context_default_params": _Context,
    "llama_batch_get_one": _Batch,
    "llama_get_logits_ith": ctypes.POINTER(_F),
    "llama_model_load_from_file": _P,
    "llama_init_from_model": _P,
    "llama_model_get_vocab": _P,
}
_ARGUMENTS = {
    "llama_batch_get_one": (_P, _I),
    "llama_decode": (_P, _Batch),
    "llama_model_load_from_file": (ctypes.c_char_p, _Model),
    "llama_init_from_model": (_P, _Context),
    "llama_get_logits_ith": (_P, _I),
    "llama_set_n_threads": (_P, _I, _I),
    "llama_model_get_vocab": (_P,),
    "llama_vocab_n_tokens": (_P,),
    "llama_free": (_P,),
    "llama_synchronize": (_P,),
    "llama_model_free": (_P,),
}


def _quiet(level: int, text: bytes, data: object) -> None:
    pass


class Engine:
    """A model and a context, by the environment that the driver has."""

    def __init__(self) -> None:
        folder = Path(os.environ["LIBS"])
        self._ggml = ctypes.CDLL(str(_library(folder, "libggml")))
        self._llama = ctypes.CDLL(str(_library(folder, "libllama")))
        for name, kind in _RESULTS.items():
            getattr(self._llama, name).restype = kind
        for name, kinds in _ARGUMENTS.items():
            getattr(self._llama, name).argtypes = kinds
        self._log = ctypes.CFUNCTYPE(None, _I, ctypes.c_char_p, _P)(_quiet)
        self._llama.llama_log_set(self._log, None)
        self._load(folder)

    def _load(self, folder: Path) -> None:
        self._ggml.ggml_backend_load_all_from_path(str(folder).encode())
        if plugin := os.environ.get("PLUGIN"):
            self._ggml.ggml_backend_load.restype = _P
            assert self._ggml.ggml_backend_load(plugin.encode())
        self._llama.llama_backend_init()
        model: Any = self._llama.llama_model_default_params()
        if layers := int(os.environ.get("LAYERS", "0")):
            model.gpu_layers = layers
        self._model = self._llama.llama_model_load_from_file(os.environ["MODEL"].encode(), model)
        context: Any = self._llama.llama_context_default_params()
        context.context = context.batch = 512
        context.ubatch = 32
        self._context = self._llama.llama_init_from_model(self._model, context)
        self._llama.llama_set_n_threads(self._context, 1, 1)
        self._words = self._llama.llama_vocab_n_tokens(self._llama.llama_model_get_vocab(self._model))

    def _decode(self, tokens: list[int]) -> None:
        array = (_I * len(tokens))(*tokens)
        assert self._llama.llama_decode(self._context, self._llama.llama_batch_get_one(array, len(tokens))) == 0

    def run(self) -> None:
        """The driver's prompt, and 16 greedy tokens on a line. Only the first run begins at position 0."""
        prompt, state = [], 7
        for _ in range(200):
            state = (state * 1103515245 + 12345) & 0xFFFFFFFF
            prompt.append(3 + (state >> 16) % (self._words - 3))
        self._decode(prompt)
        tokens = []
        for _ in range(16):
            logits = self._llama.llama_get_logits_ith(self._context, -1)[: self._words]
            tokens.append(logits.index(max(logits)))
            self._decode(tokens[-1:])
        # The last logits are still on their way to a buffer that the end of the context frees.
        self._llama.llama_synchronize(self._context)
        print(*tokens)

    def close(self) -> None:
        self._llama.llama_free(self._context)
        self._llama.llama_model_free(self._model)


def _library(folder: Path, name: str) -> Path:
    """`libllama.so` in older versions, `libllama.v0.5.0.so` in newer ones."""
    (path,) = (path for path in folder.iterdir() if path.name == f"{name}.so" or path.name.startswith(f"{name}.v"))
    return path


if __name__ == "__main__":
    engine = Engine()
    engine.run()
    engine.close()
