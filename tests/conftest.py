"""Fixtures that tests of several rooms share."""

from __future__ import annotations

from typing import Any

import pytest

from tests import sarif_schema as schemas


@pytest.fixture(scope="session")
def sarif_schema() -> dict[str, Any]:
    try:
        return schemas.fetch()
    except schemas.MissingError as error:
        pytest.skip(str(error))
