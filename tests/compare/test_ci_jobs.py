"""The jobs of the documentation, run: what people paste into their CI must turn red and green as it says.

The steps run as written, in bash as GitHub runs them (`bash -eo pipefail`). Stubs, since there is no network here and
no engine: `pip` on PATH does nothing, `hbtrace` on PATH is this package, and `ci/record-runs` copies traces that the
test lays out. Steps with `uses:` are GitHub's own and are not run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.compare.samples import run, write

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "hbtrace/docs/gate.md", ROOT / "README.md"]

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the jobs' steps are for bash")


def fences(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run_steps(text):
    """The `run:` steps of a job, by PyYAML where it is installed, else by a reader of just these keys."""
    try:
        import yaml
    except ImportError:
        return tiny_reader(text)
    return [step["run"] for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"] if "run" in step]


def tiny_reader(text):
    steps, lines = [], text.split("\n")
    for number, line in enumerate(lines):
        match = re.fullmatch(r"( *)(?:- )?run: (.*)", line)
        if match is None:
            continue
        if match[2] != "|":
            steps.append(match[2])
            continue
        inside = []
        for below in lines[number + 1 :]:
            if below.strip() and len(below) - len(below.lstrip()) <= len(match[1]):
                break
            inside.append(below)
        steps.append("\n".join(line.strip() for line in inside).strip("\n"))
    return steps


def variables():
    """What `env:` of the job sets."""
    (text,) = {text for page in PAGES for text in fences(page, "yaml") if "runs-on:" in text}
    return dict(re.findall(r"^      ([A-Z]+): (.*)$", text, re.MULTILINE))


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Run a script in a checkout with stubs: its exit code."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "bin/pip": "exit 0",
        "bin/hbtrace": f'exec {sys.executable} -m hbtrace "$@"',
        "ci/record-runs": 'mkdir -p runs && cp -r "recorded/$1" "runs/$1"',
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"#!/bin/sh\n{text}\n")
        Path(name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), **variables(),
    }  # fmt: skip

    def call(script):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            env=environment, capture_output=True, check=False, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return call


def recorded(**sides):
    for side, runs in sides.items():
        Path("recorded", side).mkdir(parents=True)
        for number, events in enumerate(runs):
            write(Path("recorded", side, f"{number}.jsonl"), events)


RACY, WAITS, SHORT = run("inp_tokens"), run("inp_tokens", waits=True), run("inp_tokens", ubatches=2, waits=True)
CASES = {
    # base, head, exit code, which step ends the job (None: none)
    "a fix": ([RACY] * 2, [WAITS] * 2, 0, None),
    "nothing new": ([RACY] * 2, [RACY] * 2, 0, None),
    "a new race": ([WAITS] * 2, [WAITS, RACY], 1, -1),
    "a shorter run": ([RACY], [SHORT], 4, -1),
    "a recording that failed": ([RACY], [], 3, -1),
    "an empty trace": ([RACY], [[]], 3, -1),
}


def other_jobs(kind, mark):
    """Pages whose job is not that of a page before: a job runs once, however many pages show it."""
    found = {}
    for page in PAGES:
        for text in fences(page, kind):
            if mark in text:
                found.setdefault(text, page)
    return found.values()


def test_which_page_has_which_jobs():
    """The page `gate` has both; the README has that for any CI, the same."""
    gate, readme = ({kind: fences(page, kind) for kind in ("yaml", "sh")} for page in PAGES)
    assert [len(jobs) for jobs in gate.values()] == [1, 1]
    assert readme == {"yaml": [], "sh": gate["sh"]}


@pytest.mark.parametrize("page", other_jobs("yaml", "runs-on:"), ids=lambda page: page.stem)
@pytest.mark.parametrize("name", CASES)
def test_the_github_job(job, page, name):
    base, head, code, where = CASES[name]
    recorded(base=base, head=head)
    (text,) = [text for text in fences(page, "yaml") if "runs-on:" in text]
    steps = run_steps(text)
    assert steps == tiny_reader(text) or [s.strip() for s in steps] == tiny_reader(text)
    assert any("selftest" in step for step in steps)
    for number, step in enumerate(steps):
        if "selftest" in step and name != "a fix":
            continue  # many processes; once is enough
        got, out, err = job(step)
        if where is not None and number == len(steps) + where:
            assert (got, "Traceback" in err) == (code, False), out + err
            return check_reports(name, code)
        assert got == 0, step + out + err
    assert code == 0
    return check_reports(name, code)


def check_reports(name, code):
    """They are there, and as red as the job."""
    assert Path("summary.md").read_text().startswith("**hbtrace diff**: ")
    (run,) = json.loads(Path("races.sarif").read_text())["runs"]
    assert run["invocations"][0]["executionSuccessful"] == (code < 2)
    (suite,) = Xml.parse("races.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == (str(int(name == "a new race")), str(int(code > 2)))
    assert ("cannot judge" in Path("summary.md").read_text()) == (code == 3)


@pytest.mark.parametrize("page", other_jobs("sh", "baseline check"), ids=lambda page: page.stem)
@pytest.mark.parametrize(
    ("head", "code"),
    [([RACY], 0), ([WAITS], 0), ([run("inp_tokens", "inp_pos")], 1), ([], 3), ([RACY, [{"ev": "meta"}]], 3)],
)
def test_the_shell_job(job, page, head, code):
    (script,) = [text for text in fences(page, "sh") if "baseline check" in text]
    assert "hbtrace selftest\n" in script
    script = script.replace("hbtrace selftest\n", "")  # ran in the job above
    recorded(base=[RACY], head=head)
    assert job("hbtrace baseline write recorded/base -o races.toml")[0] == 0
    got, out, err = job(script)
    assert (got, "Traceback" in err) == (code, False), out + err
    (suite,) = Xml.parse("races.xml").getroot()
    assert (int(suite.get("failures")) > 0, int(suite.get("errors")) > 0) == (code == 1, code == 3)


def test_the_shell_job_turns_red_where_the_recording_broke(job):
    """Nothing is new in a run whose computes are not recorded: that is no reason to be green."""
    (script,) = [text for text in fences(ROOT / "hbtrace/docs/gate.md", "sh") if "baseline check" in text]
    broken = [e | {"ev": "compute2"} if e["ev"] == "compute" else e for e in RACY]
    recorded(base=[RACY], head=[broken])
    assert job("hbtrace baseline write recorded/base -o races.toml")[0] == 0
    assert job(script.replace("hbtrace selftest\n", ""))[0] == 4


def test_the_toml_of_the_page_is_read(hbtrace, tmp_path):
    known, suppressions = fences(ROOT / "hbtrace/docs/gate.md", "toml")
    (tmp_path / "known.toml").write_text(known)
    (tmp_path / "s.toml").write_text(suppressions)
    trace = ROOT / "sample_traces/integrated.arrow"
    code, out, _ = hbtrace("baseline", "check", tmp_path / "known.toml", trace, "--format", "json")
    assert (code, len(json.loads(out)["persisting"])) == (1, 1)
    again = tmp_path / "again.toml"
    again.write_text(known)
    assert hbtrace("baseline", "write", trace, "-o", again, "-f", "--id", "R-e3a290")[0] == 0
    assert again.read_text() == known
    code, out, _ = hbtrace("analyze", trace, "--suppressions", tmp_path / "s.toml", "--format", "json")
    assert json.loads(out)["suppressed"] == 6
