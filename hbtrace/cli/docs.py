"""`hbtrace docs`: the documentation pages, which are files of the package."""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

import click

from hbtrace.errors import UsageError
from hbtrace.words import did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@click.command(
    epilog="""\b
Examples:
  hbtrace docs
  hbtrace docs format
  hbtrace docs rules | less
"""
)
@click.argument("topic", required=False)
def command(topic: str | None) -> None:
    """Show the documentation page TOPIC, or without it the list of pages.

    On a terminal the page is rendered, elsewhere it is Markdown as it stands.
    """
    from hbtrace.cli.output import show

    pages = _pages()
    if topic is None:
        width = max(map(len, pages))
        for name, page in pages.items():
            show(f"{name:<{width}}  {_about(page.read_text(encoding='utf-8'))}\n")
        return
    text = pages[_name(topic, list(pages))].read_text(encoding="utf-8")
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _print_rendered(text)
    else:
        click.echo(text, nl=False)


def _print_rendered(text: str) -> None:
    """Markdown on a terminal. Code is not wrapped: what is copied from a page must run."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Markdown
    from rich.text import Text

    from hbtrace.cli.output import colours

    class Code(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            lines = str(self.text).rstrip().split("\n")
            yield Text("\n".join(f"    {line}" for line in lines), style="cyan", no_wrap=True, overflow="ignore")

    class Page(Markdown):
        elements = {**Markdown.elements, "fence": Code, "code_block": Code}  # noqa: RUF012 - as the base class has it

    Console(no_color=not colours(), width=min(Console().width, 120)).print(Page(text), crop=False)


def _pages() -> dict[str, Traversable]:
    """Name -> file, sorted by name."""
    folder = files("hbtrace") / "docs"
    found = {page.name.removesuffix(".md"): page for page in folder.iterdir() if page.name.endswith(".md")}
    return dict(sorted(found.items()))


def _name(topic: str, names: list[str]) -> str:
    """The page somebody means. Raises UsageError with a suggestion."""
    wanted = topic.lower().removesuffix(".md")
    if wanted in names:
        return wanted
    hint = did_you_mean(wanted, names, f"the pages are {', '.join(names)}")
    raise UsageError(f"no page `{topic}`: {hint}")


def _about(text: str) -> str:
    """The paragraph under a page's title, which is one line."""
    return next((line for line in text.splitlines()[1:] if line.strip()), "")
