"""The command line. A verb's module is imported only when the verb is called, so that `--help` is quick."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

import click

from hbtrace.errors import HbtraceError

VERBS: Final = {
    "analyze": "Find the races of recorded runs and print them.",
    "info": "What is in a trace: engine, devices, the in-place hazard, counts.",
    "convert": "Between Arrow IPC, JSON Lines and other programs' logs.",
    "docs": "The documentation pages.",
}
"""Verb and its line in the help; the command is `command` in the module of the same name."""

_HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"hbtrace.cli.{name}").command
        command.name = name
        command.context_settings = {**_HELP, **command.context_settings}
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing any."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, 1, 0.5)
            hint = f"did you mean `{near[0]}`?" if near else f"the verbs are {', '.join(VERBS)}"
            ctx.fail(f"no verb `{args[0]}`: {hint}")
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from hbtrace import __version__

        click.echo(f"hbtrace {__version__}")
        ctx.exit()


@click.group(cls=_Verbs, context_settings=_HELP, no_args_is_help=True)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli() -> None:
    """Find races in recorded backend event logs of ggml and llama.cpp, offline.

    Begin with `hbtrace analyze TRACE`; `hbtrace docs` lists the documentation.
    """


def main() -> None:
    """The console script: run a verb, end with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of a command line. Errors are one sentence on standard error."""
    try:
        result: Any = cli.main(arguments, prog_name="hbtrace", standalone_mode=False)
        sys.stdout.flush()
    except HbtraceError as error:
        return _say(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", 130)
    except BrokenPipeError:
        # Whoever read the output has enough. Standard output must not be flushed again on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return _say(f"output cannot be written: {error.strerror}", 2) if error.errno == 28 else _fault(error)
    except Exception as error:  # the last resort: a fault of ours gets its own exit code
        return _fault(error)
    return result if isinstance(result, int) else 0


def _say(sentence: str, code: int) -> int:
    click.echo(f"hbtrace: {sentence}", err=True)
    return code


def _fault(error: BaseException) -> int:
    import traceback

    lines = traceback.format_exception(error)
    if "HBTRACE_DEBUG" not in os.environ:
        lines = [*traceback.format_tb(error.__traceback__)[-1:], *traceback.format_exception_only(error)]
    click.echo("".join(lines).rstrip(), err=True)
    return _say("this is a fault of hbtrace, not of your trace (HBTRACE_DEBUG=1 shows all of it)", 70)
