"""The list of formats: `analyze`, `check`, `diff` and `baseline check` have them all.

A format is a module here of its name, which has a `RENDERER`. Nothing is imported before a format is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hbtrace.report.renderer import Renderer

FORMATS: Final = (
    "text",
    "json",
    "jsonl",
    "markdown",
    "github",
    "sarif",
    "junit",
)

FORMATS_OF_ANALYZE: Final = (*FORMATS, "toml")
"""A file of suppressions is made of reports, and only `analyze` has these."""


def renderer(name: str) -> Renderer:
    """The format of this name."""
    found: Renderer = import_module(f"{__package__}.{name}").RENDERER
    return found
