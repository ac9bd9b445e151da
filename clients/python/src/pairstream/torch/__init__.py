"""Training with PyTorch: mini-batches as a dataset, the papers' losses, and a small trainer.

A name is imported when it is first used: a sampler of a plan needs no broker's client and no Pillow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..plans import Plan, PlannedBatch, PlannedBatches
    from . import losses, tcl
    from .batch import Batch, Output
    from .dataset import ScoredBatches
    from .images import Images, augment, resize, seeded
    from .momentum import Momentum, everyone
    from .planned import PlannedTars
    from .recipe import Recipe, pre_caption
    from .sharded import shard, whole
    from .trainer import Trainer

__all__ = [
    "Batch", "Images", "Momentum", "Output", "Plan", "PlannedBatch", "PlannedBatches", "PlannedTars", "Recipe", "ScoredBatches", "Trainer", "augment",
    "everyone", "losses", "pre_caption", "resize", "seeded", "shard", "tcl", "whole",
]  # fmt: skip

_WHERE = {
    "..plans": ("Plan", "PlannedBatch", "PlannedBatches"), ".batch": ("Batch", "Output"), ".dataset": ("ScoredBatches",),
    ".images": ("Images", "augment", "resize", "seeded"), ".momentum": ("Momentum", "everyone"), ".planned": ("PlannedTars",), ".recipe": ("Recipe", "pre_caption"),
    ".sharded": ("shard", "whole"), ".trainer": ("Trainer",),
}  # fmt: skip
_MODULES = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("losses", "tcl"):
        return import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
