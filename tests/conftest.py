"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import sarif_schema as schemas
from tests.registry import MissingError

# How long an example takes says nothing under load.
settings.register_profile("hbtrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hbtrace")


@pytest.fixture(scope="session")
def sarif_schema() -> dict[str, Any]:
    try:
        return schemas.fetch()
    except MissingError as error:
        pytest.skip(str(error))


_NOBODY = 65534


@pytest.fixture
def plain_folder() -> Iterator[Path]:
    """A folder in which permissions count: root, whom they do not hold, is nobody for the length of the test."""
    with tempfile.TemporaryDirectory() as name:
        root = os.geteuid() == 0
        if root:
            try:
                os.chown(name, _NOBODY, -1)
                os.seteuid(_NOBODY)
            except OSError:
                pytest.skip("no other user here that root could be")
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)
