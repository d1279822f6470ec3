"""Fixtures of the recorder's tests; without a network, npm or a compiler they skip, with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.record import engine as engines
from tests.record.runs import Recorder
from tests.record.tiny_model import write_model
from tests.registry import MissingError

T = TypeVar("T")


def _or_skip(make: Callable[[], T]) -> T:
    try:
        return make()
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def engine() -> Path:
    return _or_skip(engines.fetch)


@pytest.fixture(scope="session")
def plugin(engine: Path) -> Path:
    return _or_skip(lambda: engines.build_plugin(engine))


@pytest.fixture(scope="session")
def driver(engine: Path) -> Path:
    return _or_skip(lambda: engines.build_driver(engine))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture(scope="session", autouse=True)
def _library_cache() -> None:
    """The recorder library is kept with the tests' other things, not in the user's cache."""
    os.environ.setdefault("HBTRACE_CACHE", str(engines.CACHE / "recorder"))


@pytest.fixture
def recorder(engine: Path, plugin: Path, driver: Path, model: Path, tmp_path: Path) -> Recorder:
    return Recorder(engine, plugin, driver, model, tmp_path)
