"""Training with PyTorch: mini-batches as a dataset, the papers' losses, and a small trainer."""

from . import losses
from .batch import Batch, Output
from .dataset import ScoredBatches
from .images import Images, augment, resize, seeded
from .trainer import Trainer

__all__ = ["Batch", "Images", "Output", "ScoredBatches", "Trainer", "augment", "losses", "resize", "seeded"]
