"""The command of a release's wheel finds PyTorch, or says what is missing."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairstream import _command
from pairstream.__main__ import main


def describe(site: Path, name: str, version: str) -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages that comes first, with a program that prints its arguments and what it looks for."""
    folder = tmp_path / "pairstream" / "_bin"
    folder.mkdir(parents=True)
    program = folder / "pairstream"
    program.write_text('#!/bin/sh\necho "$@" "$LD_LIBRARY_PATH" "$LANGUAGE_MODELS"\n')
    program.chmod(0o755)
    describe(tmp_path, "pairstream", "1.2.3")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delenv("LANGUAGE_MODELS", raising=False)
    importlib.invalidate_caches()
    yield tmp_path


@pytest.fixture
def tensors(site: Path) -> Path:
    """pairstream-tensors of the same release, with bindings for two versions of PyTorch; 2.9 is older than 2.15."""
    folder = site / "pairstream_tensors"
    for minor in "2.15", "2.9":
        (folder / f"torch-{minor}").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "pairstream-tensors").touch()
    describe(site, "pairstream-tensors", "1.2.3")
    return folder


def install(site: Path, version: str) -> Path:
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text("raise ImportError('it is never imported')\n")
    describe(site, "torch", version)
    return site / "torch"


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))


def prepare(site: Path, **environ: str) -> dict[str, str]:
    program, prepared = _command._prepare(site / "pairstream" / "_bin", environ)
    assert program == site / "pairstream" / "_bin" / "pairstream"  # what needs no tensors runs in any case
    return prepared


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch may be imported already, by other tests."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)


@pytest.mark.parametrize(("version", "binding"), [("2.9.0", "2.9"), ("2.9.1+cu130", "2.9"), ("2.15.0", "2.15"), ("2.15+cpu", "2.15"), ("2.15.0a0+git1", "2.15")])
def test_the_binding_of_the_torch_beside_is_taken(tensors: Path, site: Path, no_torch: None, version: str, binding: str) -> None:
    install(site, version)
    environ = prepare(site)
    assert environ["PAIRSTREAM_TENSORS"] == str(tensors / "pairstream-tensors")
    assert environ["LD_LIBRARY_PATH"] == str(tensors / f"torch-{binding}")
    assert "LANGUAGE_MODELS" not in environ


def test_a_torch_elsewhere_is_named(tensors: Path, site: Path, no_torch: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path_factory.mktemp("other")
    monkeypatch.syspath_prepend(str(other))
    torch = install(other, "2.15.0")
    assert prepare(site, LD_LIBRARY_PATH="/x")["LD_LIBRARY_PATH"] == f"{tensors / 'torch-2.15'}:{torch / 'lib'}:/x"


def test_a_program_behind_a_link_gets_the_torch_of_the_environment(tensors: Path, site: Path, no_torch: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Some installers link files to their cache. The system looks beside the file that the link leads to."""
    torch = install(site, "2.15.0")
    program = tensors / "pairstream-tensors"
    program.symlink_to(program.rename(tmp_path_factory.mktemp("cache") / "pairstream-tensors"))
    assert prepare(site)["LD_LIBRARY_PATH"] == f"{tensors / 'torch-2.15'}:{torch / 'lib'}"


def test_language_models_come_from_their_package(site: Path, no_torch: None) -> None:
    (site / "pairstream_languages").mkdir()
    (site / "pairstream_languages" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert prepare(site)["LANGUAGE_MODELS"] == str(site / "pairstream_languages" / "languages.zip")
    assert prepare(site, LANGUAGE_MODELS="/mine")["LANGUAGE_MODELS"] == "/mine"


@pytest.mark.parametrize("version", ["2.10.0", "2.16.0", "1.13.0a0", "2.1", "2", "3.15.0"])
def test_a_torch_without_a_binding_is_refused(tensors: Path, site: Path, no_torch: None, version: str) -> None:
    install(site, version)
    environ = prepare(site)
    assert re.match(rf"pairstream-tensors has bindings for PyTorch 2\.9 and 2\.15, and finds {version} in .*: pip install 'torch==2\.15\.\*'", environ["PAIRSTREAM_NO_TENSORS"])
    assert "PAIRSTREAM_TENSORS" not in environ


def test_a_missing_torch_is_named(tensors: Path, site: Path, no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "torch")
    environ = prepare(site, LD_LIBRARY_PATH="/x")
    assert re.match(r"PyTorch is missing.*pip install 'torch==2\.15\.\*'.*5 GB.*index of CPU wheels", environ["PAIRSTREAM_NO_TENSORS"])
    assert environ["LD_LIBRARY_PATH"] == "/x"


def test_missing_tensors_are_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "pairstream_tensors")
    environ = prepare(site, PAIRSTREAM_TENSORS="/stale")
    assert re.match(r"pairstream-tensors is missing: pip install pairstream_tensors-1\.2\.3-\*\.whl.*5 GB.*index of CPU wheels", environ["PAIRSTREAM_NO_TENSORS"])
    assert "PAIRSTREAM_TENSORS" not in environ


def test_tensors_of_another_release_are_refused(tensors: Path, site: Path, no_torch: None) -> None:
    install(site, "2.15.0")
    (site / "pairstream-1.2.3.dist-info").rename(site / "pairstream-1.3.0.dist-info")
    (site / "pairstream-1.3.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pairstream\nVersion: 1.3.0\n")
    importlib.invalidate_caches()
    assert re.match(r"pairstream-tensors 1\.2\.3 in .* another release than pairstream 1\.3\.0: pip install pairstream_tensors-1\.3\.0-", prepare(site)["PAIRSTREAM_NO_TENSORS"])


def test_a_torch_that_is_there_again_is_taken(tensors: Path, site: Path, no_torch: None) -> None:
    install(site, "2.15.0")
    assert "PAIRSTREAM_NO_TENSORS" not in prepare(site, PAIRSTREAM_NO_TENSORS="PyTorch is missing")


def test_a_torch_without_metadata_is_refused(tensors: Path, site: Path, no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "2.15.0")
    version = importlib.metadata.version

    def gone(name: str) -> str:
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", gone)
    assert "finds unknown in" in prepare(site)["PAIRSTREAM_NO_TENSORS"]


def test_main_becomes_the_program(site: Path, no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    monkeypatch.setattr(_command, "_FOLDER", site / "pairstream" / "_bin")
    monkeypatch.setattr(sys, "argv", ["pairstream", "status", "--watch"])
    monkeypatch.setattr(os, "execve", lambda *args: called.extend(args))
    _command.main()
    assert called[:2] == [site / "pairstream" / "_bin" / "pairstream", ["pairstream", "status", "--watch"]]


def test_produce_of_the_package_becomes_the_program(site: Path, no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tars, tables and lists are read by one program alone."""
    called: list[object] = []
    monkeypatch.setattr(_command, "_FOLDER", site / "pairstream" / "_bin")
    monkeypatch.setattr(os, "execve", lambda *args: called.extend(args) or sys.exit(3))
    with pytest.raises(SystemExit, match="3"):
        main(["produce", "/data/shards", "--final"])
    assert called[1] == ["pairstream", "produce", "/data/shards", "--final"]


def test_without_a_program_the_command_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", "from pairstream import _command; _command.main()"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("pairstream: this installation of the Python package has no program")
