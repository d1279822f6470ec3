"""Fixtures that tests of several rooms share."""

from __future__ import annotations

from typing import Any

import pytest

from tests import sarif_schema as schemas
from tests.registry import MissingError


@pytest.fixture(scope="session")
def sarif_schema() -> dict[str, Any]:
    try:
        return schemas.fetch()
    except MissingError as error:
        pytest.skip(str(error))
