"""Whether a race that is gone could have shown: asked alike of a side and of a baseline, for every nature of race."""

from __future__ import annotations

import json

import pytest

from tests.compare.samples import write

Q0, Q1 = ({"ev": "synchronize", "backend": k} for k in range(2))
CPU = {"ev": "backend", "id": 1, "name": "CPU", "type": "cpu", "async": False, "synchronous": True}


def set_up(second=None):
    return [
        {"ev": "backend", "id": 0, "name": "GPU0", "type": "gpu", "events": True},
        second or {"ev": "backend", "id": 1, "name": "GPU1", "type": "gpu", "events": True},
        {"ev": "buffer", "id": 0, "name": "GPU_Host", "size": 4096, "host": True},
        {"ev": "buffer", "id": 1, "name": "state", "size": 4096, "host": True},
        *({"ev": "tensor", "id": k, "name": name, "buffer": 0, "offset": 64 * k, "size": 64}
          for k, name in enumerate("abc")),
        {"ev": "tensor", "id": 3, "name": "d", "buffer": 0, "offset": 0, "size": 64},
    ]  # fmt: skip


def kernel(backend=0, reads=(), writes=()):
    listed = {"reads": [{"tensor": k} for k in reads], "writes": [{"tensor": k} for k in writes]}
    return {"ev": "kernel", "backend": backend, **listed}


SAVE = {"ev": "host_access", "label": "save", "writes": [{"buffer": 1}]}
UPLOAD = {"ev": "set_async", "backend": 0, "tensor": 2, "host_range": {"buffer": 1, "offset": 0, "size": 64}}
DOWNLOAD = {"ev": "get_async", "backend": 0, "tensor": 2, "host_range": {"buffer": 1, "offset": 0, "size": 64}}
LOOK = {"ev": "host_access", "label": "look", "reads": [{"buffer": 1, "offset": 0, "size": 64}]}
FREE = {"ev": "buffer_free", "buffer": 1, "label": "shrink"}
READ = {"ev": "get_direct", "tensor": 1}
EVENT = [{"ev": "event_record", "backend": 0, "event": 3}, {"ev": "event_wait", "backend": 1, "event": 3}]

RACES = {
    # name: (second backend, work, what mends it, who comes second)
    "CPU split": (CPU, [kernel(reads=[0], writes=[1])], [Q0], kernel(1, reads=[2], writes=[3])),
    "pair of queues": (None, [kernel(writes=[1])], EVENT, kernel(1, reads=[1])),
    "host read": (None, [kernel(writes=[1])], [Q0], READ),
    "input write": (None, [kernel(reads=[0])], [Q0], {"ev": "set_direct", "tensor": 0}),
    "free": (None, [SAVE, UPLOAD], [Q0], FREE),
    "transfer read back": (None, [DOWNLOAD], [Q0], LOOK),
    "upload overwritten": (None, [UPLOAD], [Q0], SAVE),
}


def judged(hbtrace, folder, race, *, without=False):
    """What `diff` and `baseline check` say of a race, by state; without: the mended run lacks its second side."""
    second, work, mend, last = race
    base = write(folder / "base.jsonl", [*set_up(second), *work, last])
    head = write(folder / "head.jsonl", [*set_up(second), *work, *mend, *([] if without else [last])])
    hbtrace("baseline", "write", base, "-o", folder / "base.toml", "-f")
    out = []
    for line in (("diff", base, head), ("baseline", "check", folder / "base.toml", head)):
        code, text, err = hbtrace(*line, "--format", "json")
        document = json.loads(text)
        states = ("new", "fixed", "persisting", "not_exercised")
        out.append((code, {state: len(document[state]) for state in states if document.get(state)}))
        assert not err, err
    return out


@pytest.mark.parametrize("name", RACES)
def test_a_mended_race_is_fixed_for_both(hbtrace, tmp_path, name):
    assert judged(hbtrace, tmp_path, RACES[name]) == [(0, {"fixed": 1})] * 2


@pytest.mark.parametrize("name", RACES)
def test_a_race_whose_second_side_is_gone_is_fixed_for_neither(hbtrace, tmp_path, name):
    assert judged(hbtrace, tmp_path, RACES[name], without=True) == [(0, {"not_exercised": 1})] * 2


def test_what_a_host_thread_did_before_races_only_with_another_thread(hbtrace, tmp_path):
    meta = {"ev": "meta", "version": 1, "threads": "ordered"}
    write_, work = {"ev": "set_direct", "tensor": 0, "thread": 1}, kernel(reads=[0])
    hand_over = [{"ev": "release", "object": "m", "thread": 1}, {"ev": "acquire", "object": "m"}]
    base = write(tmp_path / "base.jsonl", [meta, *set_up(), write_, work])
    hbtrace("baseline", "write", base, "-o", tmp_path / "base.toml")
    for rows, state in (
        ([meta, *set_up(), write_, *hand_over, READ, work], "fixed"),
        ([*set_up(), write_, work], "not_exercised"),
    ):
        head = write(tmp_path / "head.jsonl", rows)
        document = json.loads(hbtrace("baseline", "check", tmp_path / "base.toml", head, "--format", "json")[1])
        assert len(document[state]) == 1, document
