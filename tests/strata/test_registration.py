"""Strata is a room that registers itself: nobody else imports it, and what does not ask for it does not load it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import hbtrace
from hbtrace import engines
from hbtrace.checks.registry import SCHEDULER_RULES, all_rules
from hbtrace.strata.registration import LOG

PACKAGE = Path(hbtrace.__file__).parent


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_nobody_else_imports_it() -> None:
    others = [path for path in PACKAGE.rglob("*.py") if "strata" not in path.relative_to(PACKAGE).parts]
    assert {path.name for path in others if any(name.startswith("hbtrace.strata") for name in imported(path))} == set()


def test_it_is_found_by_its_name_and_by_its_logs() -> None:
    engine = engines.named("strata")
    assert engine is not None
    assert engines.of_log(LOG) is engine
    assert engine in engines.engines()
    assert engines.named("llama.cpp") is engines.named(None) is engines.of_log("ggml-sanitizer-trace") is None
    assert set(all_rules()) - set(SCHEDULER_RULES) == set(engine.rules())


def test_a_trace_of_another_engine_loads_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"ev":"meta","version":1,"engine":"llama.cpp"}\n{"ev":"note","what":"window"}\n')
    code = f"import sys; from hbtrace.cli import run; run(['analyze', {str(path)!r}]); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.splitlines() if name.startswith("hbtrace.strata")}
    assert loaded == {"hbtrace.strata", "hbtrace.strata.registration"}
