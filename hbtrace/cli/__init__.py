"""The command line: the table of verbs, and how a run of it ends.

A verb's module is imported only when that verb is called, so that `--help` is quick. No verb's logic is here.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from hbtrace.cli import interrupt
from hbtrace.errors import HbtraceError, SlowKernelWarning
from hbtrace.escape import harmless, printed
from hbtrace.words import did_you_mean

_TABLE: Final = {
    "analyze": ("hbtrace.cli.analyze", "Find the races of recorded runs and print them."),
    "info": ("hbtrace.cli.info", "What is in a trace: engine, devices, the in-place hazard, counts."),
    "convert": ("hbtrace.cli.convert", "Between Arrow IPC, JSON Lines and other programs' logs."),
    "diff": ("hbtrace.cli.diff", "Compare the races of two sides by identity: new, fixed, persisting."),
    "baseline": ("hbtrace.cli.baseline", "Known races in a file for git; fail on new ones only."),
    "selftest": ("hbtrace.cli.selftest", "See this installation's gate turn red for a race and green for its fix."),
    "triage": ("hbtrace.cli.triage", "Root causes of the races of a trace, one line each."),
    "explain": ("hbtrace.cli.explain", "One race in full: both sides, the missing edge, a witness, the fix."),
    "whatif": ("hbtrace.cli.whatif", "The same trace under another rule, and the smallest fix."),
    "minimize": ("hbtrace.cli.minimize", "The smallest trace that still shows a race."),
    "check": ("hbtrace.cli.check", "The ring's and the caches' rules on a trace, and what a clean run is worth."),
    "simulate": ("hbtrace.cli.simulate", "Traces from executable models, with named faults."),
    "record": ("hbtrace.cli.record", "Run a program with the recording library loaded."),
    "docs": ("hbtrace.cli.docs", "The documentation pages."),
}
"""Verb -> its module, whose click command is named `command`, and its line in the help."""

VERBS: Final = {name: about for name, (_, about) in _TABLE.items()}
"""The verbs, in the order of the help."""

_HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Verbs(click.Group):
    """A group whose commands are imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(_TABLE[name][0]).command
        command.name = name
        command.context_settings = {**_HELP, **command.context_settings}
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table: click's own way would import each for its line."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS:
            raise click.UsageError(f"no verb `{args[0]}`: {_nearest(args[0])}")
        return super().resolve_command(ctx, args)


def _nearest(word: str) -> str:
    """What somebody who typed this for a verb may have meant."""
    file = f"did you mean `hbtrace analyze {word}`?" if os.path.isfile(word) else None
    return did_you_mean(word, VERBS, file or f"the verbs are {', '.join(VERBS)}")


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from hbtrace import __version__
        from hbtrace.replay.kernels import described

        click.echo(f"hbtrace {__version__} ({described()})")
        ctx.exit()


@click.group(
    cls=_Verbs,
    context_settings=_HELP,
    no_args_is_help=False,
    epilog="""\b
Examples:
  hbtrace analyze run.arrow
  hbtrace analyze -h
  hbtrace docs rules
""",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli() -> None:
    """Find races in recorded backend event logs of ggml and llama.cpp, offline.

    Begin with `hbtrace analyze TRACE`; `hbtrace docs` lists the documentation.
    """


class _WithoutPandas:
    """Where pandas is installed pyarrow imports it at its first conversion: 0.4 s, and no verb has a use for it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("no verb of hbtrace needs pandas", name=name)


def main() -> None:
    """The console script: run a verb, end with its exit code."""
    sys.meta_path.insert(0, _WithoutPandas())
    if sys.stderr is None:  # started with it closed, `2>&-`: a file must not get its number, nor what is said there
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:  # started with it closed: `>&-`
        sys.exit(_say("standard output is closed", 2))
    if hasattr(sys.stdout, "reconfigure"):
        # A file's name may be no text in this locale; that is no reason to lose the result.
        sys.stdout.reconfigure(errors="backslashreplace")
    if "_HBTRACE_COMPLETE" in os.environ:
        cli.main(prog_name="hbtrace")  # click's shell completion: prints and ends
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # not where `nohup` ignores it
            signal.signal(number, _leave)
    sys.exit(run(sys.argv[1:]))


def _leave(number: int, _: object) -> None:
    """End by an exception, so that what is half-written is removed on the way out."""
    raise SystemExit(128 + number)


def run(arguments: list[str]) -> int:
    """The exit code of a command line. Errors are one sentence on standard error.

    Not `cli.main`: that one ends with 1 when its reader goes away, and here 1 means that races were found.
    """
    interrupt.forget()
    gc.set_threshold(50_000, 20, 20)  # a replay makes many small objects and hardly a cycle
    try:
        if not arguments:
            with cli.make_context("hbtrace", [], resilient_parsing=True) as ctx:
                click.echo(ctx.get_help(), err=True)
            return 2
        with _warnings_told(), cli.make_context("hbtrace", arguments) as ctx:
            result: Any = cli.invoke(ctx)
        sys.stdout.flush()
    except HbtraceError as error:
        return _say(str(error), error.exit_code)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _say(_sentence(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", 130)
    except MemoryError:  # pyarrow's, too
        return _say("there is not enough memory for this; a part of the run, or a machine with more, may do", 3)
    except OSError as error:
        return _unwritten(error)
    except Exception as error:  # the last resort: a fault of ours gets its own exit code
        return _fault(error)
    if interrupt.asked() and result != 70:
        return 130
    return result if isinstance(result, int) else 0


@contextmanager
def _warnings_told() -> Iterator[None]:
    """That a run is slow is said once, in our words, whatever Python does with warnings."""
    told: set[str] = set()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, SlowKernelWarning):
                others(message, category, *place, **more)
            elif str(message) not in told:
                told.add(str(message))
                click.echo(harmless(f"warning: {message}"), err=True)

        warnings.showwarning = show
        warnings.simplefilter("always", SlowKernelWarning)
        yield


def _sentence(error: click.ClickException) -> str:
    """Click's message on one line, and where to read on."""
    text = " ".join(error.format_message().split())
    text = f"{text[:1].lower()}{text[1:].rstrip('.')}"
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return text if ctx is None else f"{text} (`{ctx.command_path} -h` shows how it is used)"


def _unwritten(error: OSError) -> int:
    """The result did not reach standard output. Any other error of the system is a fault of ours."""
    if error.errno not in (errno.EPIPE, errno.ENOSPC):
        return _fault(error)
    # What is left in the buffer must not be tried again on the way out.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:
        return 141  # as a shell tells of a program that SIGPIPE ended: `| head` has enough, all is well
    return _say(f"standard output cannot be written: {error.strerror}", 2)


def _say(sentence: str, code: int) -> int:
    click.echo(f"hbtrace: {harmless(sentence)}", err=True)
    return code


def _fault(error: BaseException) -> int:
    import traceback

    lines = traceback.format_exception(error)
    if not os.environ.get("HBTRACE_DEBUG"):
        lines = [*traceback.format_tb(error.__traceback__)[-1:], *traceback.format_exception_only(error)]
    click.echo(printed("".join(lines).rstrip()), err=True)
    return _say("this is a fault of hbtrace, not of your trace (HBTRACE_DEBUG=1 shows all of it)", 70)
