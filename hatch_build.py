"""The build hook: a wheel with the compiled kernel where a C++ compiler is, a pure one where none is or it fails."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = "hbtrace/compiled"


def _compile_module(root: str) -> ModuleType:
    """`hbtrace.compiled.compile` by its path: what hbtrace needs is not installed yet."""
    spec = importlib.util.spec_from_file_location("hbtrace_compile", Path(root) / COMPILED / "compile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the library in the source tree, where an editable install finds it, and puts it into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before each wheel, also the one of an editable install."""
        compile = _compile_module(self.root)
        folder = Path(self.root) / COMPILED
        why = compile.build(folder)
        build_data["artifacts"].append(f"{COMPILED}/{compile.NOTE}")
        if why:
            self.app.display_warning(f"hbtrace is installed without its compiled kernel and replays in Python: {why}")
            return
        build_data["artifacts"].append(f"{COMPILED}/{compile.LIBRARY}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{compile.platform_tag(folder / compile.LIBRARY)}"
