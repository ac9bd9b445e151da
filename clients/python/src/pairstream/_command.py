"""The command pairstream: the program that a release's wheel brings. What computes with tensors comes from pairstream-tensors.

pairstream-tensors has a binding for each minor version of PyTorch that it knows, and computes with the libtorch of the
PyTorch that pip installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn

_FOLDER = Path(__file__).parent / "_bin"
# Names the program that computes with tensors.
_TENSORS = "PAIRSTREAM_TENSORS"
# Tells the program why nothing can compute with tensors here, and what to do.
_NO_TENSORS = "PAIRSTREAM_NO_TENSORS"
_SIZE = "It comes with CUDA's libraries, 5 GB in all. For the processor alone install torch first from PyTorch's own index of CPU wheels, which its start page names"


class _CannotStart(Exception):
    """The program cannot start; the message says what to do."""


def _package_folder(name: str) -> Path | None:
    """Return the folder of a package that is installed, or None. It does not import the package."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _version(distribution: str) -> str:
    """Return the version of what pip installed, or "unknown"."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _tensors() -> tuple[Path, list[Path]]:
    """Return the program that computes with tensors, and folders of libraries that it does not find by itself."""
    mine, folder = _version("pairstream"), _package_folder("pairstream_tensors")
    if folder is None:
        raise _CannotStart(f"pairstream-tensors is missing: pip install pairstream_tensors-{mine}-*.whl of the same release, which wants PyTorch. {_SIZE}")
    if (other := _version("pairstream-tensors")) != mine:
        raise _CannotStart(f"pairstream-tensors {other} in {folder} belongs to another release than pairstream {mine}: pip install pairstream_tensors-{mine}-*.whl")
    bindings = sorted((path.name.removeprefix("torch-") for path in folder.glob("torch-*")), key=lambda minor: [int(part) for part in minor.split(".")])
    torch, found = _package_folder("torch"), _version("torch")
    if torch is None:
        raise _CannotStart(f"PyTorch is missing, whose libtorch the program computes with: pip install 'torch=={bindings[-1]}.*'. {_SIZE}")
    minor = ".".join(found.split("+")[0].split(".")[:2])
    if minor not in bindings:
        raise _CannotStart(f"pairstream-tensors has bindings for PyTorch {' and '.join(bindings)}, and finds {found} in {torch}: pip install 'torch=={bindings[-1]}.*'")
    program = folder / "pairstream-tensors"
    libraries = [folder / f"torch-{minor}"]
    # The program looks in the PyTorch beside its own package, where the file lies that links lead to. Another one must be named.
    if torch.resolve() != (program.resolve().parents[1] / "torch").resolve():
        libraries.append(torch / "lib")
    return program, libraries


def _language_models() -> str | None:
    """Return the file of the package pairstream-languages, or None where that is not installed."""
    folder = _package_folder("pairstream_languages")
    return None if folder is None else str(folder / "languages.zip")


def _prepare(folder: Path, environ: dict[str, str]) -> tuple[Path, dict[str, str]]:
    """Return the program and the environment to run it in."""
    program = folder / "pairstream"
    if not program.is_file():
        raise _CannotStart(f"this installation of the Python package has no program ({program}). Install the wheel of a release, or build bin/pairstream from source")
    environ = dict(environ)
    environ.setdefault("PAIRSTREAM_PYTHON", sys.executable)  # which `progress --to` runs
    environ.pop(_TENSORS, None)
    environ.pop(_NO_TENSORS, None)
    try:
        tensors, libraries = _tensors()
    except _CannotStart as error:
        environ[_NO_TENSORS] = str(error)  # the program says it for what computes with tensors, and runs everything else
    else:
        environ[_TENSORS] = str(tensors)
        environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [*map(str, libraries), environ.get("LD_LIBRARY_PATH")]))
    if "LANGUAGE_MODELS" not in environ and (models := _language_models()):
        environ["LANGUAGE_MODELS"] = models
    return program, environ


def main() -> NoReturn:
    """Become the program."""
    become(sys.argv[1:])


def become(arguments: list[str]) -> NoReturn:
    """Become the program, with arguments."""
    try:
        program, environ = _prepare(_FOLDER, dict(os.environ))
    except _CannotStart as error:
        sys.exit(f"pairstream: {error}")
    os.execve(program, ["pairstream", *arguments], environ)
