"""Packages of npm that the tests need, fetched once into a folder that the workers of a test run share."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SECONDS = 120


class MissingError(Exception):
    """Something that these tests need is not here: the sentence says what."""


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """Hold `cache`, which is made: the other workers wait, and then find what this one has made."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextmanager
def packed(package: str, cache: Path) -> Iterator[tuple[tarfile.TarFile, Path]]:
    """The package's archive, and a folder in `cache` that is gone afterwards. Raises MissingError."""
    npm = shutil.which("npm")
    if npm is None:
        raise MissingError(f"no npm to fetch {package} with")
    with tempfile.TemporaryDirectory(dir=cache) as name:
        command = [npm, "pack", package, "--pack-destination", name, "--fetch-timeout", "20000"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise MissingError(f"npm pack {package} took too long: no network?") from None
        if done.returncode != 0:
            raise MissingError(f"npm pack {package} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        (archive,) = Path(name).glob("*.tgz")
        with tarfile.open(archive) as opened:
            yield opened, Path(name)
