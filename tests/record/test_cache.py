"""The library that is loaded into other people's programs is nobody else's: who could have written it is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hbtrace.record import build


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with a library in it; the default one is another."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    (folder / "r.so").write_bytes(b"")
    (folder / "r.so").chmod(0o755)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("HBTRACE_CACHE", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    return folder


def folder_of(said: list[str]) -> Path:
    return build._trusted_folder("r.so", said.append)


def test_ones_own_is_used(cache: Path) -> None:
    said: list[str] = []
    assert (folder_of(said), said) == (cache, [])


@pytest.mark.parametrize(
    ("where", "mode"), [("r.so", 0o775), ("r.so", 0o757), (".", 0o777), (".", 0o770), ("..", 0o777)]
)
def test_what_others_may_write_is_not(where: str, mode: int, cache: Path) -> None:
    said: list[str] = []
    (cache / where).resolve().chmod(mode)
    found = folder_of(said)
    assert found != cache
    assert f"has mode {mode:o}" in said[0]
    assert build.untrusted(found / "r.so") == ""
    if where != "..":
        assert (found, len(said)) == (cache.parent / "own/hbtrace", 1)


@pytest.mark.parametrize("where", ["r.so", "."])
def test_what_belongs_to_another_is_not(where: str, cache: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(cache / where, 65534, -1)
    said: list[str] = []
    assert folder_of(said) == cache.parent / "own/hbtrace"
    assert "belongs to user 65534" in said[0]


def test_a_link_is_followed_and_asked(cache: Path) -> None:
    elsewhere = cache.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "r.so").write_bytes(b"")
    (cache / "r.so").unlink()
    (cache / "r.so").symlink_to(elsewhere / "r.so")
    assert build.untrusted(cache / "r.so") == ""
    elsewhere.chmod(0o722)
    assert "has mode 722" in build.untrusted(cache / "r.so")


def test_a_sticky_folder_keeps_ones_own(cache: Path) -> None:
    cache.chmod(0o1777)
    assert build.untrusted(cache / "r.so") == ""
