"""The build: with a compiler a wheel for this platform, without one, or where it fails, a pure one and one sentence."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tarfile
import types
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hbtrace.compiled import compile as compiling
from hbtrace.compiled.library import open_library

ROOT = Path(__file__).resolve().parents[2]


def _compiler_or_skip() -> None:
    try:
        compiling.compiler()
    except compiling.BuildError as error:
        pytest.skip(str(error))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What a wheel is built from."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT / "hbtrace", copy / "hbtrace",
                    ignore=shutil.ignore_patterns("__pycache__", compiling.LIBRARY, compiling.NOTE))  # fmt: skip
    for name in ("pyproject.toml", "README.md", "hatch_build.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy


class App:
    """What a hook speaks to."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def display_warning(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture
def hook(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook of the tree, as hatchling would make it."""
    interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object  # type: ignore[attr-defined]
    for end in range(1, 6):
        name = ".".join(interface.__name__.split(".")[:end])
        monkeypatch.setitem(sys.modules, name, interface if end == 5 else types.ModuleType(name))
    spec = importlib.util.spec_from_file_location("hatch_build", tree / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.KernelHook()
    made.root, made.app = str(tree), App()
    return made


def _built(hook: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"artifacts": [], "pure_python": True}
    hook.initialize("standard", data)
    return data


def test_with_a_compiler(hook: Any, tree: Path) -> None:
    _compiler_or_skip()
    data = _built(hook)
    assert hook.app.said == []
    assert data["artifacts"] == ["hbtrace/compiled/built.json", "hbtrace/compiled/libhbtrace.so"]
    assert data["pure_python"] is False
    assert data["tag"].startswith("py3-none-")
    open_library(tree / "hbtrace/compiled")


def _nothing_in_path(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tree))


def _cxx(command: str) -> Any:
    return lambda tree, monkeypatch: monkeypatch.setenv("CXX", command)


def _wrong_source(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _compiler_or_skip()
    (tree / "hbtrace/compiled/wrong.cpp").write_text("int f() { return nothing; }\n")


WITHOUT = {
    "no compiler": (_nothing_in_path, "there is no C++ compiler"),
    "a command that is none": (_cxx("no-such-compiler -O3"), "CXX is 'no-such-compiler -O3', which is no command"),
    "a compiler that fails": (_cxx("false"), "false failed: it does not say why"),
    "a compiler that makes nothing": (_cxx("true"), "could not be run"),
    "a source that is wrong": (_wrong_source, "error: "),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_a_library(hook: Any, tree: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One sentence, a pure wheel, and what an earlier build left is gone."""
    monkeypatch.delenv("CXX", raising=False)
    (tree / "hbtrace/compiled" / compiling.LIBRARY).write_bytes(b"left by somebody")
    breaks, sentence = WITHOUT[name]
    breaks(tree, monkeypatch)
    data = _built(hook)
    (said,) = hook.app.said
    assert said.startswith("hbtrace is installed without its compiled kernel and replays in Python: ")
    assert sentence in said
    assert "\n" not in said
    assert data == {"artifacts": ["hbtrace/compiled/built.json"], "pure_python": True}
    assert {path.name for path in (tree / "hbtrace/compiled").glob(f"{compiling.LIBRARY}*")} == set()
    done = subprocess.run([sys.executable, "-m", "hbtrace", "--version"], cwd=tree, capture_output=True, check=True,
                          text=True, env={"PYTHONPATH": str(tree)})  # fmt: skip
    assert "(Python kernel: none was built: " in done.stdout
    assert sentence in done.stdout


def test_cxx_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its options."""
    _compiler_or_skip()
    script = tmp_path / "mine"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\nexec {compiling.compiler()[0]} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", f"{script} -DMINE")
    compiling.compile_to(tmp_path / "made", options=("-O0",))
    assert (tmp_path / "told").read_text().startswith("-DMINE ")


def test_the_tag_names_the_oldest_c_library_that_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "library"
    library.write_bytes(b"\0GLIBC_2.2.5\0GLIBC_2.14\0GLIBC_2.3.4\0")
    for platform, tag in (("linux-x86_64", "manylinux_2_14_x86_64"), ("macosx-11.0-arm64", "macosx_11_0_arm64")):
        monkeypatch.setattr("sysconfig.get_platform", lambda platform=platform: platform)
        assert compiling.platform_tag(library) == tag
    library.write_bytes(b"\0GLIBC_2.2.5\0")
    monkeypatch.setattr("sysconfig.get_platform", lambda: "linux-x86_64")
    assert compiling.platform_tag(library) == "manylinux_2_5_x86_64"
    library.write_bytes(b"")  # another C library
    assert compiling.platform_tag(library) == "linux_x86_64"


def _glibc() -> bool:
    return sys.platform.startswith("linux") and b"GLIBC_" in Path(sys.executable).resolve().read_bytes()


@pytest.mark.skipif(not _glibc(), reason="another C library")
def test_the_library_loads_where_the_readme_says(tmp_path: Path) -> None:
    """A C library as old as is promised has all that it needs."""
    _compiler_or_skip()
    compiling.compile_to(tmp_path / "library")
    tag = compiling.platform_tag(tmp_path / "library")
    needed = int(tag.split("_")[2])
    text = (ROOT / "hbtrace/docs/limitations.md").read_text(encoding="utf-8")
    assert needed <= 17, f"{tag}: something new came in"
    assert "glibc 2.17" in text


def test_a_wheel_from_a_source_archive(tree: Path, tmp_path: Path) -> None:
    """The real thing, where the build tool can be had: archive, wheel, installed, run."""
    _compiler_or_skip()
    env = tmp_path / "env"
    venv.create(env, with_pip=True)
    pip = [str(env / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    got = subprocess.run([*pip, "install", "hatchling"], capture_output=True, check=False, text=True)
    if got.returncode:
        pytest.skip("hatchling cannot be had here")
    hatch = [str(env / "bin/python"), "-m", "hatchling", "build"]
    subprocess.run([*hatch, "-t", "sdist", "-d", str(tmp_path / "out")], cwd=tree, check=True, capture_output=True)
    (archive,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    subprocess.run([*hatch, "-t", "wheel", "-d", str(tmp_path / "out")], cwd=unpacked, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert wheel.name.startswith("hbtrace-")
    assert "-py3-none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    open_library(tmp_path / "installed/hbtrace/compiled")
