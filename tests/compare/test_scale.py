"""Two hundred traces a side, in bounded memory: no more than a few of them need."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hbtrace.trace.writer import open_writer
from tests.compare.samples import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc or rusage of Linux")

_MEASURED = """
import resource, sys
from hbtrace.cli import run
code = run(sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime, usage.ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak(*arguments):
    """(exit code, standard output, MiB, seconds of the processor, whatever else the machine does)"""
    done = subprocess.run([sys.executable, "-c", _MEASURED, *arguments], capture_output=True, check=False, text=True)
    seconds, kib = done.stderr.splitlines()[-1].split()
    return done.returncode, done.stdout, int(kib) / 1024, float(seconds)


def test_two_hundred_traces_a_side(tmp_path):
    names = [f"l_out-{n}" for n in range(12)]
    for side, more in (("base", ()), ("head", ("inp_new",))):
        (tmp_path / side).mkdir()
        with open_writer(str(tmp_path / f"{side}.arrow")) as writer:
            writer.write_rows(run(*names, *more, ubatches=40))
        for n in range(200):
            os.link(tmp_path / f"{side}.arrow", tmp_path / side / f"{n:03}.arrow")
    few = peak("diff", str(tmp_path / "base.arrow"), str(tmp_path / "head.arrow"), "--format", "json")
    many = peak("diff", str(tmp_path / "base"), str(tmp_path / "head"), "--format", "json")
    assert few[0] == many[0] == 1
    assert many[2] < few[2] + 60, (few[2], many[2])
    assert many[3] < 200 * few[3], (few[3], many[3])  # no run costs more for those before it
    documents = [json.loads(out) for out in (few[1], many[1])]
    assert [len(d["persisting"]) for d in documents] == [12, 12]
    assert documents[1]["new"][0]["head"] == {"min": 39, "max": 39, "runs": 200, "of": 200}
    assert documents[1]["coverage"]["head"]["runs"] == {"exercised": 0, "partly": 200, "not-exercised": 0}
