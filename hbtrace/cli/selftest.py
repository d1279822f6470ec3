"""`hbtrace selftest`: does this installation's gate turn red for a race and green for its fix?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click


@click.command(epilog="""\b
Examples:
  hbtrace selftest
""")
def command() -> int:
    """Plant a race and its fix, and see this very installation's gate turn red and green.

    What would be green by mistake is planted too: a trace that is not understood, a mistyped key under --strict, a
    filter that matches nothing. Run it in CI before the gate, so that a gate that cannot fail is noticed.

    Exit code: 0 it works, 70 it does not.
    """
    from hbtrace.compare.selftest import trials

    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for trial in trials(Path(folder)):
            got = trial.exit_code()
            works = got == trial.wanted
            failed += [] if works else [trial.what]
            click.echo(f"{'ok  ' if works else 'FAIL'}  {trial.what} (exit code {got}, wanted {trial.wanted})")
    click.echo("the gate works" if not failed else f"the gate does not work: {', '.join(failed)}")
    return 70 if failed else 0
