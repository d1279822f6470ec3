"""The house: which room may import which. Imports inside functions and for types alone count as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "hbtrace"

FLOORS = (
    ("errors", "escape", "words", "findings", "backends", "engines"),
    ("outfile", "compiled"),
    ("trace",),
    ("importers", "record", "simulate"),
    ("replay", "info"),
    ("races",),
    ("consequence",),
    ("explain",),
    ("what_if",),
    ("checks",),
    ("strata",),
    ("compare",),
    ("report",),
    ("cli",),
    ("strata.cli",),
    ("__init__", "__main__"),
)
"""From the ground up. A room imports from lower floors and from itself, never from beside or above."""

FACES = {"__init__", "__main__"}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name within it; a package's own face is `room.__init__`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts)] = path
    return found


def room(module: str) -> str:
    """The room of a module: its first folder, or the module itself at the top; an engine's commands are one of their
    own."""
    return "strata.cli" if module.startswith("strata.cli") else module.split(".")[0]


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            if node.module and node.module.split(".")[0] == "hbtrace":
                inside = node.module.removeprefix("hbtrace").removeprefix(".")
                for name in node.names:
                    whole = f"{inside}.{name.name}" if inside else name.name
                    yield from target(whole, inside, known)
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "hbtrace":
                    inside = name.name.removeprefix("hbtrace").removeprefix(".")
                    yield from target(inside, inside, known)


def target(whole: str, inside: str, known: dict[str, Path]) -> Iterator[str]:
    """The module that `from inside import ...` loads: a submodule, the module itself, or a package's face."""
    for name in (whole, f"{whole}.__init__", inside, f"{inside}.__init__" if inside else "__init__"):
        if name in known:
            yield name
            return


def arrows() -> dict[str, set[str]]:
    known = modules()
    return {module: set(imports(path, known)) - {module} for module, path in known.items()}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, straight or through others: the components of more than one (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def floor(name: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def upward(graph: dict[str, set[str]]) -> list[str]:
    """Arrows between rooms that lead beside or up. The package's own version may be asked for from anywhere."""
    return [
        f"{module} -> {other}"
        for module, others in sorted(graph.items())
        for other in sorted(others)
        if room(module) != room(other) and other != "__init__" and floor(room(other)) >= floor(room(module))
    ]


def test_every_module_has_a_room() -> None:
    rooms = {name for names in FLOORS for name in names}
    assert {room(module) for module in modules()} <= rooms


def test_arrows_between_rooms_lead_down() -> None:
    assert upward(arrows()) == []


def test_there_is_no_circle_of_imports() -> None:
    graph = {module: {other for other in others if other not in FACES} for module, others in arrows().items()}
    assert circles(graph) == []


def test_one_engine_is_named_by_nobody_else() -> None:
    others = {module for module, to in arrows().items() if room(module) not in ("strata", "strata.cli")
              and any(other.startswith("strata") for other in to)}  # fmt: skip
    assert others == set()


def test_a_circle_and_an_arrow_upwards_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert upward({"trace.reader": {"replay.lower"}, "replay.lower": {"trace.reader"}}) == [
        "trace.reader -> replay.lower"
    ]
