"""Training with PyTorch: mini-batches as a dataset, the papers' losses, and a small trainer."""

from . import losses, tcl
from .batch import Batch, Output
from .dataset import ScoredBatches
from .images import Images, augment, resize, seeded
from .momentum import Momentum
from .recipe import Recipe, pre_caption
from .trainer import Trainer

__all__ = ["Batch", "Images", "Momentum", "Output", "Recipe", "ScoredBatches", "Trainer", "augment", "losses", "pre_caption", "resize", "seeded", "tcl"]
