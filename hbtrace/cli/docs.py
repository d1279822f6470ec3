"""`hbtrace docs`: the documentation pages that are in the package."""

from __future__ import annotations

import sys
from importlib.resources import files

import click

from hbtrace.errors import UsageError


@click.command(epilog="""\b
Examples:
  hbtrace docs
  hbtrace docs format
""")
@click.argument("topic", required=False)
def command(topic: str | None) -> None:
    """Show a documentation page, or without TOPIC the list of them."""
    folder = files("hbtrace") / "docs"
    pages = {page.name.removesuffix(".md"): page for page in folder.iterdir() if page.name.endswith(".md")}
    if topic is None:
        width = max(map(len, pages))
        for name in sorted(pages):
            click.echo(f"{name:<{width}}  {_about(pages[name].read_text(encoding='utf-8'))}")
        return
    if topic not in pages:
        raise UsageError(f"no page `{topic}`; there are {', '.join(sorted(pages))}")
    text = pages[topic].read_text(encoding="utf-8")
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        with (console := Console()).pager(styles=True):
            console.print(Markdown(text))
    else:
        click.echo(text, nl=False)


def _about(text: str) -> str:
    """The one line under a page's title."""
    return next((line for line in text.splitlines()[1:] if line.strip()), "")
