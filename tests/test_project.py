"""What holds for the project as a whole: names, versions, what the documents show."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import hbtrace
from hbtrace.cli import VERBS
from tests import docs

ROOT = Path(__file__).resolve().parents[1]

# In pieces, so that this file does not hold what it forbids.
FORBIDDEN = [
    re.compile(pattern)
    for pattern in (
        r"py" + r"pi\b",
        r"files\.python" + r"hosted",
        r"/opt/" + r"py",
        r"/wor" + r"k/",
        r"/ho" + r"me/[a-z]",
        r"/ro" + r"ot/",
        r"\.lib" + r"rary/",
        r"index" + r"-url",
    )
]


def project_files() -> Iterator[Path]:
    """What is committed or would be; without git, everything but what tools make."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True,
        ).stdout  # fmt: skip
        names = [name for name in listed.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        tools = {".venv", ".bench", ".git", "dist", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
        names = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if not tools & set(path.relative_to(ROOT).parts) and "__pycache__" not in path.parts
        ]
    yield from (ROOT / name for name in sorted(names) if (ROOT / name).is_file())


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [
            f"{path.relative_to(ROOT)}: {match[0]!r}"
            for pattern in FORBIDDEN
            if (match := pattern.search(text)) is not None
        ]
    assert found == []


def test_the_top_level_is_what_it_should_be() -> None:
    known = {"pyproject.toml", "hbtrace", "tests", "sample_traces", "README.md", "Makefile", "hatch_build.py"}
    tops = {path.relative_to(ROOT).parts[0] for path in project_files()}
    assert {top for top in tops if not top.startswith(".")} == known


def test_one_version() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert hbtrace.__version__ == metadata["version"]
    changelog = (ROOT / "hbtrace/docs/changelog.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == hbtrace.__version__


def test_the_command_reference_is_what_the_commands_say() -> None:
    assert docs.reference() == docs.REFERENCE.read_text(encoding="utf-8"), "run `make docs`"


SESSIONS = [
    pytest.param(block, id=f"{path.relative_to(ROOT)}-{number}")
    for path in docs.DOCUMENTS
    for number, block in enumerate(docs.sessions(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("block", SESSIONS)
def test_what_a_document_shows_is_what_the_tool_prints(block: str) -> None:
    assert docs.session(block) == block, "run `make docs`"


@pytest.mark.parametrize("path", docs.DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_looks_like_a_session_is_one(path: Path) -> None:
    """A prompt outside of a `console` block would be shown and never be run."""
    text = path.read_text(encoding="utf-8")
    blocks = docs.sessions(text)
    assert len(blocks) == len(re.findall(r"^ *[`~]{3,}console", text, re.MULTILINE))
    assert len(re.findall(r"^ *\$ ", text, re.MULTILINE)) == sum(block.count("\n$ ") + 1 for block in blocks)


@pytest.mark.parametrize("path", docs.DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_the_readme_names_every_page_and_every_verb() -> None:
    text = docs.README.read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(hbtrace/docs/(\w+)\.md\) \|", text, re.MULTILINE)
    assert sorted(rows) == [(path.stem, path.stem) for path in docs.PAGES]
    verbs = re.findall(r"^\| (`[^|]*) \|", text.split("\n## Verbs\n")[1].split("\n## ")[0], re.MULTILINE)
    assert {name.split()[0] for cell in verbs for name in re.findall("`([^`]+)`", cell)} == set(VERBS)



def test_the_readme_is_short() -> None:
    assert docs.README.read_text(encoding="utf-8").count("\n") <= 240, "worked examples go to the page `tour`"


def test_the_pages_ship_in_the_package() -> None:
    from importlib.resources import files

    assert (files("hbtrace") / "docs" / "format.md").is_file()
    assert (files("hbtrace") / "py.typed").is_file()


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony.split() == re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
