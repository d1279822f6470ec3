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
import cProfile, resource, sys
from hbtrace.cli import run
profile = cProfile.Profile()
code = profile.runcall(run, sys.argv[1:])
calls = sum(entry.callcount for entry in profile.getstats())
print(calls, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak(*arguments):
    """(exit code, standard output, MiB, calls of functions: their number is the same under load)"""
    done = subprocess.run([sys.executable, "-c", _MEASURED, *arguments], capture_output=True, check=False, text=True)
    calls, kib = done.stderr.splitlines()[-1].split()
    return done.returncode, done.stdout, int(kib) / 1024, int(calls)


def test_two_hundred_traces_a_side(tmp_path):
    names = [f"l_out-{n}" for n in range(12)]
    for side, more in (("base", ()), ("head", ("inp_new",))):
        with open_writer(str(tmp_path / f"{side}.arrow")) as writer:
            writer.write_rows(run(*names, *more, ubatches=40))
        for runs in (1, 2, 200):
            (tmp_path / f"{runs}" / side).mkdir(parents=True)
            for n in range(runs):
                os.link(tmp_path / f"{side}.arrow", tmp_path / f"{runs}" / side / f"{n:03}.arrow")
    one, two, many = (
        peak("diff", *(str(tmp_path / f"{runs}" / side) for side in ("base", "head")), "--format", "json")
        for runs in (1, 2, 200)
    )
    assert one[0] == two[0] == many[0] == 1
    assert many[2] < one[2] + 60, (one[2], many[2])
    assert many[3] - two[3] < 1.1 * 198 * (two[3] - one[3]), (one[3], two[3], many[3])  # none costs more for the others
    documents = [json.loads(out) for out in (one[1], many[1])]
    assert [len(d["persisting"]) for d in documents] == [12, 12]
    assert documents[1]["new"][0]["head"] == {"min": 39, "max": 39, "runs": 200, "of": 200}
    assert documents[1]["coverage"]["head"]["runs"] == {"exercised": 0, "partly": 200, "not-exercised": 0}
