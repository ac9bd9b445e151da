"""The reference vectors, and comparisons with the tolerances of their README."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import VECTORS
from safetensors import safe_open
from torch import Tensor


class Vectors:
    def __init__(self, path: Path) -> None:
        with safe_open(str(path), "pt") as file:
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self.config: dict[str, Any] = json.loads((file.metadata() or {}).get("config", "{}"))

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[self._there(name)]

    def __contains__(self, name: str) -> bool:
        return self._there(name) in self.tensors

    def _there(self, name: str) -> str:
        """Return the name in this set, which may hold the run in float64 alone."""
        for short, long in (("out.", "out64."), ("grad.", "grad64.")):
            if name not in self.tensors and name.startswith(short):
                return long + name.removeprefix(short)
        return name

    def family(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names begin with a prefix, without it."""
        prefix = prefix if any(n.startswith(prefix) for n in self.tensors) else self._there(prefix)
        return {n.removeprefix(prefix): t for n, t in self.tensors.items() if n.startswith(prefix)}


@lru_cache(maxsize=2)
def vectors(name: str) -> Vectors:
    path = VECTORS / f"{name}.safetensors"
    if not path.exists():
        pytest.skip(f"no reference vectors: {path} (set PAIRSTREAM_GOLDEN to their folder)")
    return Vectors(path)


def close(what: str, got: Tensor, want: Tensor, relative: float, absolute: float = 0.0) -> None:
    """Compare relative to the largest magnitude of the reference."""
    got, want = got.detach().double(), want.double()
    assert got.shape == want.shape, f"{what}: {tuple(got.shape)}, want {tuple(want.shape)}"
    worst = float((got - want).abs().max())
    bound = relative * float(want.abs().max()) + absolute
    assert worst <= bound, f"{what}: off by {worst:g}, at most {bound:g}"


def same(what: str, got: Tensor, want: Tensor) -> None:
    assert torch.equal(got.long(), want.long()), f"{what}: {got.tolist()}, want {want.tolist()}"
