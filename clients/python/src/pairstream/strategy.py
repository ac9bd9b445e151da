"""A strategy of your own: a function that puts the pairs of a group into mini-batches.

    def nearest_first(group: Group) -> numpy.ndarray:
        return group.rng.permutation(len(group))

`pairstream batches --strategy module:function` calls it before each epoch of each group. It returns the order, or the order
and the hard candidates of both directions. Equal groups must give equal results: draw from `group.rng` alone.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import sys
import threading
import traceback
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
    rng: np.random.Generator  # keyed by SEED, the group and the epoch

    def __len__(self) -> int:
        return len(self.image)


Order = Any  # n positions, each once; or a tuple of them and the candidates i2t and t2i, [n, m] each, -1 for none
Strategy = Callable[[Group], Order]


def find(name: str) -> Strategy:
    """Return the function module:function."""
    module, _, function = name.partition(":")
    if module == "own" and ":" in function:
        raise StrategyError(f"--strategy is {name!r}: leave out own:")
    if module.endswith(".py"):
        raise StrategyError(f"--strategy is {name!r}, a file: want the name of the module, {module.removesuffix('.py')}:{function}")
    if not all(part.isidentifier() for part in [*module.split("."), function]):
        raise StrategyError(f"--strategy is {name!r}, want module:function, such as mine:nearest_first for mine.py in this folder")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as err:
        remedy = "run the command in the folder of the module, or put that on PYTHONPATH" if err.name == module.partition(".")[0] else f"{module} imports it"
        raise StrategyError(f"--strategy is {name!r}: {err}: {remedy}") from err
    found = getattr(imported, function, None)
    if not callable(found):
        raise StrategyError(f"--strategy is {name!r}: {getattr(imported, '__file__', module)} has no function {function}")
    strategy: Strategy = found
    return strategy


def digest(strategy: Strategy) -> str:
    """Return the SHA-256 of the file that defines the function, and of the modules beside it that are imported."""
    own = Path(inspect.getfile(strategy)).resolve()
    installed = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
    loaded = {Path(file).resolve() for m in list(sys.modules.values()) if (file := getattr(m, "__file__", None))}
    beside = {f for f in loaded if f.is_relative_to(own.parent) and not any(f.is_relative_to(folder) for folder in installed)}
    sums = {str(f.relative_to(own.parent)): hashlib.sha256(f.read_bytes()).hexdigest() for f in beside | {own}}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


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
        batch_size=about["batch_size"], candidates=about["candidates"], epoch=about["epoch"], group=about["group"],
        rng=np.random.Generator(np.random.PCG64(about["seed"])),
    )  # fmt: skip


def answer(strategy: Strategy, group: Group) -> dict[str, Positions]:
    """Call the function and return its order and candidates by the names of their files."""
    try:
        result = strategy(group)
    except Exception as err:
        own = err.__traceback__ and err.__traceback__.tb_next  # without the frame of this file
        raise StrategyError("the strategy failed:\n" + "".join(traceback.format_exception(type(err), err, own)).rstrip()) from err
    if result is None:
        raise StrategyError(f"the strategy returned nothing, want {len(group)} positions, or (order, i2t, t2i)")
    parts = result if isinstance(result, tuple) else (result,)
    if len(parts) not in (1, 3):
        raise StrategyError(f"the strategy returned a tuple of {len(parts)}, want the order, or (order, i2t, t2i)")
    shapes = (("order", (len(group),)), ("i2t", (len(group), group.candidates)), ("t2i", (len(group), group.candidates)))
    out = {}
    for (name, shape), part in zip(shapes, parts, strict=False):
        try:
            values = np.asarray(part)
        except ValueError as err:
            raise StrategyError(f"the strategy returned {name} with rows of unequal length, want whole numbers of shape {list(shape)}") from err
        if values.dtype.kind not in "iu" or values.shape != shape:
            raise StrategyError(f"the strategy returned {name} of shape {list(values.shape)} and type {values.dtype}, want whole numbers of shape {list(shape)}")
        if values.size and not -1 <= values.min() <= values.max() < len(group):
            raise StrategyError(f"the strategy returned {name} with positions {values.min()} to {values.max()}, want 0 to {len(group) - 1}")
        out[name] = values.astype("<i4")
    return out


def _end_with_parent() -> None:
    """End this process when the one that started it has ended: that holds the other end of standard input."""
    while os.read(0, 4096):  # sys.stdin has a lock, for which the end of this process would wait
        pass
    os._exit(1)


def run(name: str, folder: Path | None, *, end_with_input: bool = False) -> None:
    """Print the digest of a function's module, or let the function order the pairs in a folder."""
    strategy = find(name)
    if folder is None:
        print(digest(strategy))
        return
    if end_with_input:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    for part in ("order", "i2t", "t2i"):
        (folder / f"{part}.i32").unlink(missing_ok=True)  # of a version that was refused
    parts = answer(strategy, load(folder))
    for part in ("t2i", "i2t", "order"):  # the order comes last: it says that the answer is whole
        if part in parts:
            unfinished = folder / f"{part}.tmp"
            parts[part].tofile(unfinished)
            unfinished.replace(folder / f"{part}.i32")
