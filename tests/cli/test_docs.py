"""The documentation pages: that they are shown, complete, and that what they show works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hbtrace.record.recorder_values import MODULE_KEYS
from hbtrace.trace import vocabulary as v

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "hbtrace/docs").glob("*.md"))
FORMAT = (ROOT / "hbtrace/docs/format.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "sample_traces/integrated.arrow"


def hbtrace(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hbtrace", *arguments]
    return subprocess.run(command, cwd=ROOT, input=given, capture_output=True, check=False, encoding="utf-8")


def fences(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


# the verb


def test_topics() -> None:
    lines = hbtrace("docs").stdout.splitlines()
    assert [line.split("  ")[0].strip() for line in lines] == [page.stem for page in PAGES]
    assert all(len(line) < 120 for line in lines)


def test_the_pages_that_there_must_be() -> None:
    assert {
        "api", "changelog", "checks", "format", "gate", "limitations", "output", "record", "reference", "rules",
        "strata", "tour", "triage",
    } <= {page.stem for page in PAGES}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_piped_as_it_is(page: Path) -> None:
    done = hbtrace("docs", page.stem)
    assert done.returncode == 0
    assert done.stdout == page.read_text(encoding="utf-8")
    assert done.stderr == ""


def test_a_page_by_another_spelling() -> None:
    assert hbtrace("docs", "Format.md").stdout == FORMAT


@pytest.mark.parametrize(
    ("topic", "hint"), [("fromat", "did you mean `format`?"), ("zzz", "the pages are api, ")]
)
def test_no_such_page(topic: str, hint: str) -> None:
    done = hbtrace("docs", topic)
    assert done.returncode == 2
    assert done.stdout == ""
    assert hint in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_page_is_rendered_on_a_terminal() -> None:
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "50"}
    process = subprocess.Popen(
        [sys.executable, "-m", "hbtrace", "docs", "api"], cwd=ROOT, stdin=theirs, stdout=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 1 << 16):
            seen += part
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    assert b"\x1b[" in seen
    assert b"## Reading" not in seen


# complete


@pytest.mark.parametrize("ev", v.EVENTS)
def test_every_event_and_key_is_documented(ev: str) -> None:
    words = set(re.findall(r"`([a-z_]+)`", FORMAT))
    assert {ev, *v.EVENTS[ev].keys} <= words


def test_the_other_keys_are_documented() -> None:
    words = set(re.findall(r"`([a-z_]+)`", FORMAT))
    assert {*v.COMMON, *v.RANGE_KEYS, *v.RUN_KEYS, *v.PICK_KEYS, *v.NODE_KEYS} <= words
    assert {*MODULE_KEYS, v.OWN_KEYS} <= words
    assert {word for words in v.SETS.values() for word in words} <= words


@pytest.mark.parametrize("ev", [ev for ev, event in v.EVENTS.items() if event.needs])
def test_the_keys_that_an_event_needs_are_bold(ev: str) -> None:
    part = FORMAT.split(f"\n### `{ev}`")[1].split("\n#")[0] if f"\n### `{ev}`" in FORMAT else _rows(ev)
    bold = set(re.findall(r"\*\*`([a-z_]+)`\*\*", part))
    assert bold == set(v.EVENTS[ev].needs)


def _rows(ev: str) -> str:
    """The line of the table; where it says "the same", the line above is meant."""
    lines = FORMAT.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("|") and f"`{ev}`" in line.split("|")[1])
    while "the same" in lines[at].split("|")[2]:
        at -= 1
    # `release` and `acquire` stand on one line, as do others with the same keys
    return lines[at].split("|")[2]


# and true


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_json_parses(page: Path) -> None:
    for text in fences(page, "json"):
        json.loads(text)
    for text in fences(page, "jsonl"):
        for line in text.splitlines():
            assert json.loads(line)["ev"] in v.EVENTS


def test_the_example_of_rows_by_an_index_breaks_no_rule() -> None:
    """Its rows 40 to 55 meet a read of row 41, and none of row 56."""
    (text,) = (text for text in fences(ROOT / "hbtrace/docs/format.md", "json") if '"picked"' in text)
    definitions: list[dict[str, Any]] = [
        {"ev": "backend", "id": 0, "name": "GPU0"},
        {"ev": "buffer", "id": 0, "name": "GPU0", "size": 1 << 20},
    ]
    for number in (1, 2, 7):
        place = {"buffer": 0, "offset": number << 16, "size": 1 << 16}
        definitions.append({"ev": "tensor", "id": number, "name": f"t{number}", **place})
    for row, races in ((41, 1), (56, 0)):
        read = {"ev": "get_direct", "tensor": 1, "offset": 256 * row, "size": 256}
        given = "".join(json.dumps(event) + "\n" for event in [*definitions, *json.loads(text), read])
        assert hbtrace("analyze", "-", "--strict", given=given).returncode == races


def test_the_shortest_trace_races() -> None:
    (text,) = fences(ROOT / "hbtrace/docs/format.md", "jsonl")
    done = hbtrace("analyze", "-", "--strict", given=text)
    assert done.returncode == 1
    assert done.stdout.count("RACE (write-after-read) on GPU_Host[0, 64)") == 1
    lines = text.splitlines(keepends=True)
    mended = "".join([*lines[:-1], '{"ev":"synchronize","backend":0}\n', lines[-1]])
    assert hbtrace("analyze", "-", "--strict", given=mended).returncode == 0


def keys(value: Any) -> set[str]:
    """All keys of a JSON value, at any depth."""
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys(inner)}
    return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()


def test_the_json_example_shows_what_there_is() -> None:
    page = ROOT / "hbtrace/docs/output.md"
    (text,) = fences(page, "json")
    shown, real = keys(json.loads(text)), keys(json.loads(hbtrace("analyze", str(SAMPLE), "--format", "json").stdout))
    assert shown <= real
    explained = set(re.findall(r"`([a-z_]+)`", page.read_text(encoding="utf-8")))
    assert real <= shown | explained


PROGRAMS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(fences(page, "python"))
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_run(text: str, tmp_path: Path) -> None:
    if "open_writer" not in text or "open(" in text:
        shutil.copy(SAMPLE, tmp_path / "run.arrow")
        shutil.copy(ROOT / "sample_traces/src/integrated.jsonl", tmp_path / "run.jsonl")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", text],
        cwd=tmp_path, env=environment, capture_output=True, check=False, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
