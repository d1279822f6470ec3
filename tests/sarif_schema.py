"""The schema of SARIF 2.1.0. No PyPI package was found to ship it; one of npm does, with much beside it (43 MB)."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parent / ".cache"
_PACKAGE = "@microsoft/sarif-multitool-linux@5.7.0"
_MEMBER = "package/sarif-2.1.0.json"
_SECONDS = 120


class MissingError(Exception):
    """The schema cannot be fetched: the sentence says why."""


def fetch() -> dict[str, Any]:
    """The schema, fetched once and kept. Raises MissingError."""
    kept = CACHE / "sarif-2.1.0.json"
    if not kept.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as name:
            made = Path(name) / kept.name
            made.write_bytes(_download(Path(name)))
            made.replace(kept)
    return dict(json.loads(kept.read_bytes()))


def _download(folder: Path) -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise MissingError("no npm to fetch the schema of SARIF with")
    command = [npm, "pack", _PACKAGE, "--pack-destination", str(folder), "--fetch-timeout", "20000"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise MissingError(f"npm pack {_PACKAGE} took too long: no network?") from None
    if done.returncode != 0:
        raise MissingError(f"npm pack {_PACKAGE} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        member = packed.extractfile(_MEMBER)
        assert member is not None
        return member.read()


def validate(document: dict[str, Any], schema: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError, with the place in the document."""
    import jsonschema

    jsonschema.Draft202012Validator(schema).validate(document)
