"""Every verb takes every source, by its name and from a pipe: what it cannot do with one it says in a sentence."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from hbtrace.importers.source import open_source
from hbtrace.trace.writer import write_batches
from tests.compare.test_logs import BLOCK
from tests.strata.runs import run

SANITIZER_TRACE = """\
san [split  -1 HOST      ] HOST       write ROCm_Host[0+2048] inp_tokens (tensor_set)
san [split   0 ROCm0     ] ROCm0#1    read  ROCm_Host[0+2048] inp_tokens (compute)
san [split   0 ROCm0     ] ROCm0#1    write ROCm0[0+8192] embd (compute)
san [split   0 ROCm0     ] ROCm0#1    compute       2 nodes, r=1 w=1 ranges
san [split  -1 HOST      ] HOST       write ROCm_Host[0+2048] inp_tokens (tensor_set)
"""
VERBS = {
    "analyze": (), "check": (), "triage": (), "explain": ("R-4ea695",), "whatif": ("--sync", "ubatch"),
    "whatif --fix": (), "whatif --waits": (), "minimize": ("R-4ea695", "-o", "{out}", "-f"), "info": (),
    "convert": ("{out}", "-f"), "diff": ("{other}",), "baseline write": ("-o", "{out}.toml", "-f"),
}  # fmt: skip
SOURCES = ("arrow", "jsonl", "sanitizer trace", "sanitizer reports", "strata", "nobody's log")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of each kind; those that race hold the one race R-4ea695."""
    from hbtrace.strata.model.written_logs import write_logs

    folder = tmp_path_factory.mktemp("sources")
    made = {name: folder / f"{name.replace(' ', '_')}.log" for name in SOURCES}
    made["sanitizer trace"].write_text(SANITIZER_TRACE)
    made["sanitizer reports"].write_text(BLOCK)
    made["strata"].write_text(write_logs(run("ring")).mixed)
    made["nobody's log"].write_text("main: build = 1\n")
    for kind in ("arrow", "jsonl"):
        made[kind] = folder / f"run.{kind}"
        write_batches(made[kind], open_source(str(made["sanitizer trace"])).batches())
    return made


@pytest.mark.parametrize("how", ["file", "pipe"])
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_a_source(
    hbtrace: Any, sources: dict[str, Path], verb: str, kind: str, how: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = sources[kind]
    more = [one.format(out=tmp_path / "out.jsonl", other=sources["arrow"]) for one in VERBS[verb]]
    words, where = verb.split(), str(path) if how == "file" else "-"
    if how == "pipe":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    code, out, err = hbtrace(words[0], *(words[1:] if words[0] == "baseline" else ()), where,
                             *(words[1:] if words[0] == "whatif" else ()), *more)  # fmt: skip
    racy = kind in ("arrow", "jsonl", "sanitizer trace")
    assert "Traceback" not in err
    assert "fault of hbtrace" not in err
    if kind == "nobody's log":
        assert code == 3, (code, out, err)
        return
    if kind == "sanitizer reports":
        judged = {"analyze": 1, "triage": 1, "diff": 0, "baseline write": 0}
        assert code == judged.get(verb, 3), (code, out, err)
        assert code != 3 or err.count("\n") == 1
        return
    wanted = {
        "analyze": {1}, "triage": {1}, "explain": {1}, "check": {0, 1}, "whatif": {0, 1}, "whatif --fix": {0, 1},
        "whatif --waits": {0, 1}, "minimize": {0}, "info": {0}, "convert": {0}, "diff": {0}, "baseline write": {0},
    }  # fmt: skip
    if racy:
        assert code in wanted[verb], (code, out, err)
    else:
        assert code in {0, 1, 2, 3}, (code, out, err)  # no race of this id in it, no write that another run could race
