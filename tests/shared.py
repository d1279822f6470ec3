"""Where the material beside the project lies, if it does. Tests that need it skip with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder `shared` is not beside the project")


def shared_files(pattern: str) -> list[Path]:
    """Files under `shared`, sorted; none where it is absent."""
    return sorted(SHARED.glob(pattern))
