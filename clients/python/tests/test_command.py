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


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages that comes first, with a program that prints its arguments and what it looks for."""
    folder = tmp_path / "pairstream" / "_bin"
    folder.mkdir(parents=True)
    program = folder / "pairstream"
    program.write_text('#!/bin/sh\necho "$@" "$LD_LIBRARY_PATH" "$LANGUAGE_MODELS"\n')
    program.chmod(0o755)
    (folder / "torch-version").write_text("2.11\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delenv("LANGUAGE_MODELS", raising=False)
    importlib.invalidate_caches()
    yield tmp_path


def install(site: Path, version: str) -> Path:
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text("raise ImportError('it is never imported')\n")
    info = site / f"torch-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    importlib.invalidate_caches()
    return site / "torch"


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch may be imported already, by other tests."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)


@pytest.mark.parametrize("version", ["2.11.0", "2.11.1+cu130", "2.11"])
def test_the_torch_beside_is_taken(site: Path, no_torch: None, version: str) -> None:
    install(site, version)
    program, environ = _command._prepare(site / "pairstream" / "_bin", dict(os.environ))
    assert program == site / "pairstream" / "_bin" / "pairstream"
    assert "LD_LIBRARY_PATH" not in environ
    assert "LANGUAGE_MODELS" not in environ


def test_a_torch_elsewhere_is_named(site: Path, no_torch: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path_factory.mktemp("other")
    monkeypatch.syspath_prepend(str(other))
    torch = install(other, "2.11.0")
    _, environ = _command._prepare(site / "pairstream" / "_bin", {"LD_LIBRARY_PATH": "/x"})
    assert environ["LD_LIBRARY_PATH"] == f"{torch / 'lib'}:/x"


def test_a_program_behind_a_link_gets_the_torch_of_the_environment(site: Path, no_torch: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Some installers link files to their cache. The system looks beside the file that the link leads to."""
    torch = install(site, "2.11.0")
    program = site / "pairstream" / "_bin" / "pairstream"
    program.symlink_to(program.rename(tmp_path_factory.mktemp("cache") / "pairstream"))
    _, environ = _command._prepare(site / "pairstream" / "_bin", {})
    assert environ["LD_LIBRARY_PATH"] == str(torch / "lib")


def test_language_models_come_from_their_package(site: Path, no_torch: None) -> None:
    install(site, "2.11.0")
    (site / "pairstream_languages").mkdir()
    (site / "pairstream_languages" / "__init__.py").touch()
    importlib.invalidate_caches()
    folder = site / "pairstream" / "_bin"
    assert _command._prepare(folder, {})[1]["LANGUAGE_MODELS"] == str(site / "pairstream_languages" / "languages.zip")
    assert _command._prepare(folder, {"LANGUAGE_MODELS": "/mine"})[1]["LANGUAGE_MODELS"] == "/mine"


@pytest.mark.parametrize("version", ["2.10.0", "2.12.0", "1.13.0a0", "2.1"])
def test_another_torch_is_refused(site: Path, no_torch: None, version: str) -> None:
    install(site, version)
    said = _command._prepare(site / "pairstream" / "_bin", {})[1][_command._NO_TENSORS]
    assert re.match(rf"PyTorch {version} in .* is another version than 2\.11.*pip install 'torch==2\.11\.\*'", said)


def test_a_missing_torch_is_named(site: Path, no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    program, environ = _command._prepare(site / "pairstream" / "_bin", {"LD_LIBRARY_PATH": "/x"})
    assert re.match(r"PyTorch is missing.*pip install 'torch==2\.11\.\*'", environ[_command._NO_TENSORS])
    assert program == site / "pairstream" / "_bin" / "pairstream"  # what needs no tensors runs
    assert environ["LD_LIBRARY_PATH"] == "/x"


def test_a_torch_that_is_there_again_is_taken(site: Path, no_torch: None) -> None:
    install(site, "2.11.0")
    assert _command._NO_TENSORS not in _command._prepare(site / "pairstream" / "_bin", {_command._NO_TENSORS: "PyTorch is missing"})[1]


def test_a_torch_without_metadata_is_refused(site: Path, no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "2.11.0")

    def gone(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", gone)
    assert "PyTorch unknown" in _command._prepare(site / "pairstream" / "_bin", {})[1][_command._NO_TENSORS]


def test_main_becomes_the_program(site: Path, no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "2.11.0")
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
