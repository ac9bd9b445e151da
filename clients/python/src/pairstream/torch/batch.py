"""A mini-batch as a model takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..records import GroupID, ScoredBatch
from ..rng import Generator, generator


class Output(NamedTuple):
    """What a model makes of a batch: the loss to minimise, unit features that are published, and numbers to report."""

    loss: Tensor
    image: Tensor  # [n, dim]
    text: Tensor  # [n, dim]
    values: dict[str, float] = {}


@dataclass(slots=True)
class Batch:
    """One whole mini-batch. Rows are samples; indices into the batch are rows."""

    lane: int
    group: GroupID
    epoch: int
    sequence: int
    seed: int
    positions: Tensor  # [n] of the samples in their group
    texts: list[str]  # the text to train on: the caption, or GPN-S's objects
    tokens: Any  # what the tokenizer made of the texts; None without one
    images: Tensor  # [n, ...] what the transform made of the images
    positives: Tensor | None  # [n, ...] of the uni-modal loss: another image of the same thing, or another view of the own
    i2t: Tensor  # [n, m] samples with the hardest texts for each image; -1: none
    t2i: Tensor  # [n, m] samples with the hardest images for each text
    prob_i2t: Tensor  # [n, m] Con-D's probability of a match, 0 where there is no candidate
    prob_t2i: Tensor
    same_image: Tensor  # [n, n] known positives: samples that show the same image; false on the diagonal
    dropped: int = 0  # samples whose image could not be read
    after: dict[str, Any] = field(default_factory=dict)  # the state of the dataset behind this batch

    def __len__(self) -> int:
        return len(self.positions)

    def generator(self, purpose: str, *keys: int) -> Generator:
        """Return a generator that is the same whenever the batch is trained on."""
        return generator(self.seed, purpose, self.lane, self.group.seq, self.epoch, self.sequence, *keys)

    def to(self, device: torch.device | str, non_blocking: bool = True) -> Batch:
        """Copy the tensors to a device."""
        return replace(self, **{f.name: _to(getattr(self, f.name), device, non_blocking) for f in fields(self)})

    def pin_memory(self) -> Batch:
        """Pin the tensors, for DataLoader(pin_memory=True)."""
        return replace(self, **{f.name: _pin(getattr(self, f.name)) for f in fields(self)})


def _to(value: Any, device: torch.device | str, non_blocking: bool) -> Any:
    if isinstance(value, Mapping):
        return {k: _to(v, device, non_blocking) for k, v in value.items()}
    return value.to(device, non_blocking=non_blocking) if isinstance(value, Tensor) else value


def _pin(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _pin(v) for k, v in value.items()}
    return value.pin_memory() if isinstance(value, Tensor) else value


def links(record: ScoredBatch, keep: list[int]) -> dict[str, Tensor]:
    """Return candidates, probabilities and known positives of the samples that are kept, as indices among these."""
    n, m = len(record.samples), record.m
    place = np.full(n + 1, -1, dtype=np.int64)
    place[keep] = np.arange(len(keep))
    out: dict[str, Tensor] = {}
    for way, column, probs in (("i2t", record.i2t, record.prob_i2t), ("t2i", record.t2i, record.prob_t2i)):
        rows = place[column.reshape(n, m)[keep]]  # -1 is the last place, which is -1
        p = np.where(rows >= 0, probs.reshape(n, m)[keep], np.float32(0))
        first = np.argsort(rows < 0, axis=1, kind="stable")  # what is left, in its order, then -1
        out[way] = torch.from_numpy(np.take_along_axis(rows, first, axis=1))
        out["prob_" + way] = torch.from_numpy(np.take_along_axis(p, first, axis=1).astype(np.float32))
    same = np.zeros((n, n), dtype=bool)
    for i, sample in enumerate(record.samples):
        same[i, sample.partners] = True
    out["same_image"] = torch.from_numpy(same[np.ix_(keep, keep)])
    return out
