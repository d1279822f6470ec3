"""The command line as a function, for the tests of the gate."""

from __future__ import annotations

import sys

import pytest

from hbtrace.cli import run


@pytest.fixture
def hbtrace(capfd):
    """Run a command line: (exit code, standard output, standard error)."""

    def call(*arguments):
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return code, out, err

    return call
