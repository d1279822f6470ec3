"""A small run of what `make native-asan` does at length."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hbtrace.compiled.compile import BuildError, compiler
from tests.compiled import sanitized
from tests.compiled.programs import script


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("sanitized")
    (folder / "probe.cpp").write_text("int main() { return 0; }\n")
    try:
        subprocess.run(
            [*compiler(), *sanitized.SANITIZERS, str(folder / "probe.cpp"), "-o", str(folder / "probe")],
            capture_output=True, check=True,
        )  # fmt: skip
    except subprocess.CalledProcessError:
        pytest.skip("this compiler has no sanitizers")
    return folder


@pytest.fixture(scope="module")
def driver(folder: Path) -> Path:
    return sanitized.build(folder, *sanitized.SANITIZERS, *sanitized.SMALL, "-O0")


@pytest.fixture(scope="module")
def meter_driver(folder: Path) -> Path:
    return sanitized.build(folder, *sanitized.SANITIZERS, "-O0", driver=sanitized.METER_DRIVER)


def test_random_scripts(driver: Path) -> None:
    assert sanitized.compare(driver, range(50)) > 0


def test_hostile_scripts(driver: Path) -> None:
    assert sanitized.survive(driver, range(200)) > 20


def test_random_runs_are_metered(meter_driver: Path) -> None:
    assert sanitized.compare_meters(meter_driver, range(50)) > 0


def test_hostile_runs_are_metered(meter_driver: Path) -> None:
    assert sanitized.survive_meters(meter_driver, range(200)) > 20


def test_more_than_32_bits_can_number_is_want_of_memory(tmp_path: Path) -> None:
    """With the limit brought down to where a script reaches it: a status, and no answer that is wrong."""
    try:
        small = sanitized.build(tmp_path, "-O0", "-DHB_LIMIT=300")
    except BuildError as error:
        pytest.skip(str(error))
    seeds = range(40)
    scripts = [script(seed) for seed in seeds]
    said = sanitized.answers(small, scripts)
    full = 0
    for each in scripts:
        for chunk in sanitized.expected(each):
            status = next(said)
            full += status == 1
            assert status in (0, 1)
            if status == 0:
                hits, counts, rows = (sanitized._list(said) for _ in range(3))
                assert (hits, counts, set(rows)) == chunk[1:]
    assert full > 5
