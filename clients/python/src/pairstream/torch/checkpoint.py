"""Read files of torch.save without running what a stranger has put into them."""

from __future__ import annotations

import io
import mmap
import pickle
from pathlib import Path
from typing import Any

import torch

from ..errors import PairstreamError

_ZIP = b"PK"
_CODE = b"constants.pkl"  # by this member torch.load knows TorchScript


def read_tensors(path: str | Path, *, trust: bool = False) -> dict[str, Any]:
    """Return what a file of torch.save holds: tensors, numbers and texts. With trust it may hold, and run, anything else.

    PyTorch before 2.6 runs a TorchScript archive whatever weights_only says (CVE-2025-32434). So such a file does not reach it.
    """
    with open(path, "rb") as file:
        if not trust and _is_program(file):
            raise PairstreamError(f"{path} is TorchScript, which is a program: want weights saved by torch.save, or --trust to run the code of those who made it")
        try:
            loaded: Any = torch.load(file, map_location="cpu", weights_only=not trust)
        except Exception as err:  # PyTorch raises many kinds for broken bytes, and so does what a trusted file runs
            raise PairstreamError(f"{path} cannot be read{'' if trust else ' as tensors alone, without --trust'}: {err}") from err
    if isinstance(loaded, torch.nn.Module):
        loaded = loaded.state_dict()
    if not isinstance(loaded, dict):
        raise PairstreamError(f"{path} holds a {type(loaded).__name__}, want a dictionary of tensors")
    return loaded


def load_trained(raw: bytes, device: str) -> dict[str, Any]:
    """Return what torch.save made of a trainer's state, from memory."""
    if raw.startswith(_ZIP) and _CODE in raw:
        raise PairstreamError("it is TorchScript, which is a program")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(raw), map_location=device, weights_only=True)
    except pickle.UnpicklingError as err:
        raise PairstreamError(f"it holds more than tensors: {err}") from err
    return state


def _is_program(file: Any) -> bool:
    """Report whether the name of a member that holds code is anywhere in an archive, however its directory is written."""
    if file.read(len(_ZIP)) != _ZIP:
        file.seek(0)
        return False
    file.seek(0)
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        return whole.find(_CODE) >= 0
