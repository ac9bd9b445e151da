"""A strategy of your own: a function that puts the pairs of a group into mini-batches.

    def nearest_first(group: Group) -> numpy.ndarray:
        return group.rng().permutation(len(group))

`pairstream batches --strategy module:function` calls it before each epoch of each group. It returns the order, or the order
and the hard candidates of both directions. Equal groups must give equal results: draw from `group.rng()` alone.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import PairstreamError

Floats = NDArray[np.float32]
Positions = NDArray[np.int32]


class StrategyError(PairstreamError):
    """A function of --strategy cannot be imported, or returned no order of the group's pairs."""


@dataclass(frozen=True)
class Group:
    """The n pairs of a group before an epoch. The arrays are mapped from files and read-only; row p is the pair at position p."""

    v: Floats  # [n, dim] images of the encoder, of unit rows
    t: Floats  # [n, dim] texts of the encoder
    learner_v: Floats | None  # [n, width] images of the model in training, from the epoch before; None: there are none
    learner_t: Floats | None
    image: Positions  # [n] pairs that show one image have one number
    cluster: Positions  # [n]
    neighbors: Positions  # [n, k1] positions of the pairs with the most similar images, -1 behind the last
    batch_size: int  # N
    candidates: int  # m: hard candidates of each pair and direction
    epoch: int
    group: str  # lane/sequence
    seed: int

    def __len__(self) -> int:
        return len(self.image)

    def rng(self) -> np.random.Generator:
        """Return a generator that is keyed by SEED, the group and the epoch."""
        return np.random.Generator(np.random.PCG64(self.seed))


Order = Any  # n positions, each once; or a tuple of them and the candidates i2t and t2i, [n, m] each, -1 for none
Strategy = Callable[[Group], Order]


def find(name: str) -> Strategy:
    """Return the function module:function."""
    module, _, function = name.partition(":")
    if not module or not function.isidentifier():
        raise StrategyError(f"--strategy is {name!r}, want module:function, such as mine:nearest_first for mine.py in this folder")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as err:
        raise StrategyError(f"--strategy is {name!r}: {err}: run the command in the folder of the module, or put that on PYTHONPATH") from err
    if not callable(found):
        raise StrategyError(f"--strategy is {name!r}: the module has no function {function}")
    strategy: Strategy = found
    return strategy


def digest(strategy: Strategy) -> str:
    """Return the SHA-256 of the file that defines the function."""
    return hashlib.sha256(Path(inspect.getfile(strategy)).read_bytes()).hexdigest()


def load(folder: Path) -> Group:
    """Map the arrays that pairstream wrote into a folder."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    n = about["pairs"]

    def array(name: str, dtype: str, *shape: int) -> Any:
        return np.memmap(folder / name, dtype=dtype, mode="r", shape=shape) if all(shape) else np.zeros(shape, dtype)

    def vectors(name: str, width: int) -> Any:
        return array(name, "<f4", n, width) if width else None

    return Group(
        v=vectors("v.f32", about["dim"]), t=vectors("t.f32", about["dim"]),
        learner_v=vectors("learner_v.f32", about["learner_dim"]), learner_t=vectors("learner_t.f32", about["learner_dim"]),
        image=array("image.i32", "<i4", n), cluster=array("cluster.i32", "<i4", n), neighbors=array("neighbors.i32", "<i4", n, about["k1"]),
        batch_size=about["batch_size"], candidates=about["candidates"], epoch=about["epoch"], group=about["group"], seed=about["seed"],
    )  # fmt: skip


def answer(strategy: Strategy, group: Group) -> dict[str, Positions]:
    """Call the function and return its order and candidates by the names of their files."""
    result = strategy(group)
    parts = result if isinstance(result, tuple) else (result,)
    if len(parts) not in (1, 3):
        raise StrategyError(f"the strategy returned a tuple of {len(parts)}, want the order, or (order, i2t, t2i)")
    shapes = (("order", (len(group),)), ("i2t", (len(group), group.candidates)), ("t2i", (len(group), group.candidates)))
    out = {}
    for (name, shape), part in zip(shapes, parts, strict=False):
        values = np.asarray(part)
        if values.dtype.kind not in "iu" or values.shape != shape:
            raise StrategyError(f"the strategy returned {name} of shape {list(values.shape)} and type {values.dtype}, want whole numbers of shape {list(shape)}")
        if values.size and not -1 <= values.min() <= values.max() < len(group):
            raise StrategyError(f"the strategy returned {name} with positions {values.min()} to {values.max()}, want 0 to {len(group) - 1}")
        out[name] = values.astype("<i4")
    return out


def run(name: str, folder: Path | None) -> None:
    """Print the digest of a function's module, or let the function order the pairs in a folder."""
    strategy = find(name)
    if folder is None:
        print(digest(strategy))
        return
    parts = answer(strategy, load(folder))
    for part in ("t2i", "i2t", "order"):  # the order comes last: it says that the answer is whole
        if part in parts:
            unfinished = folder / f"{part}.tmp"
            parts[part].tofile(unfinished)
            unfinished.replace(folder / f"{part}.i32")
