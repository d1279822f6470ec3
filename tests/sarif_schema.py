"""The schema of SARIF 2.1.0. No PyPI package was found to ship it; one of npm does, with much beside it (43 MB)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.registry import alone, packed

CACHE = Path(__file__).parent / ".cache"
_PACKAGE = "@microsoft/sarif-multitool-linux@5.7.0"
_MEMBER = "package/sarif-2.1.0.json"


def fetch() -> dict[str, Any]:
    """The schema, fetched once and kept. Raises MissingError."""
    kept = CACHE / "sarif-2.1.0.json"
    with alone(CACHE):
        if not kept.exists():
            _fetch(kept)
    return dict(json.loads(kept.read_bytes()))


def _fetch(kept: Path) -> None:
    with packed(_PACKAGE, CACHE) as (archive, folder):
        member = archive.extractfile(_MEMBER)
        assert member is not None
        made = folder / kept.name
        made.write_bytes(member.read())
        made.replace(kept)


def validate(document: dict[str, Any], schema: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError, with the place in the document."""
    import jsonschema

    jsonschema.Draft202012Validator(schema).validate(document)
