"""The command pairstream: the programs that a release's wheel brings, on the libtorch of the PyTorch that pip installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn

_FOLDER = Path(__file__).parent / "_bin"
# Tells the program why nothing can compute with tensors here, and what to do.
_NO_TENSORS = "PAIRSTREAM_NO_TENSORS"


class _CannotStart(Exception):
    """The program cannot start; the message says what to do."""


def _torch_folder(wanted: str) -> Path:
    """Return the folder of PyTorch, whose version must begin with the wanted one. It does not import PyTorch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise _CannotStart(f"PyTorch is missing, whose libtorch the program computes with: pip install 'torch=={wanted}.*'")
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        found = "unknown"
    if not f"{found}.".startswith(f"{wanted}."):
        raise _CannotStart(f"PyTorch {found} in {Path(spec.origin).parent} is another version than {wanted}, for which the program is built: pip install 'torch=={wanted}.*'")
    return Path(spec.origin).parent


def _language_models() -> str | None:
    """Return the file of the package pairstream-languages, or None where that is not installed."""
    spec = importlib.util.find_spec("pairstream_languages")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).parent / "languages.zip")


def _prepare(folder: Path, environ: dict[str, str]) -> tuple[Path, dict[str, str]]:
    """Return the program and the environment to run it in."""
    program = folder / "pairstream"
    if not program.is_file():
        raise _CannotStart(f"this installation of the Python package has no program ({program}). Install the wheel of a release, or build bin/pairstream from source")
    environ = dict(environ)
    environ.setdefault("PAIRSTREAM_PYTHON", sys.executable)  # which `progress --to` runs
    environ.pop(_NO_TENSORS, None)
    try:
        torch = _torch_folder((folder / "torch-version").read_text().strip())
    except _CannotStart as error:
        environ[_NO_TENSORS] = str(error)  # the program says it for what computes with tensors, and runs everything else
    else:
        # pairstream-tensors looks in the PyTorch beside its own package, where the file lies that links lead to. Another one
        # must be named.
        if torch.resolve() != (program.resolve().parents[2] / "torch").resolve():
            environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(torch / "lib"), environ.get("LD_LIBRARY_PATH")]))
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
