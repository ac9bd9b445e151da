"""A mini-batch as a model takes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import data

from ..errors import InvalidError
from ..plans import kept_links
from ..records import GroupID, ScoredBatch
from ..rng import Generator, generator

_SMALL_BYTES = 256 << 10
_PLAIN = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)


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
    high: float = 0.0  # threshold of connections that the record says; 0: the reader's own (`Recipe.bounds`)
    dropped: int = 0  # samples whose image could not be read
    second: Tensor | None = None  # [n, ...] other variations of the images, for losses that compare two views (TCL)
    image_ids: Tensor | None = None  # [n, 2] ids of the images as two numbers, for queues
    spare: bool = False  # another rank's, with which this rank goes along: it counts for nothing, and gives others no keys
    after: dict[str, Any] = field(default_factory=dict)  # the state of the dataset behind this batch

    def __len__(self) -> int:
        return len(self.positions)

    def __getstate__(self) -> dict[str, Any]:
        """Leave a worker process. A tensor that is shared costs a file and a connection, so small ones are sent as they are."""
        return {f.name: _pack(getattr(self, f.name)) for f in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, _unpack(value))

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


class _Small(NamedTuple):
    """A small tensor on its way to another process."""

    values: NDArray[Any]


def _pack(value: Any) -> Any:
    if type(value) is dict:
        return {k: _pack(v) for k, v in value.items()}
    if type(value) is Tensor and value.dtype in _PLAIN and not value.requires_grad and value.device.type == "cpu":
        return _Small(value.numpy()) if value.numel() * value.element_size() <= _SMALL_BYTES else value
    return value


def _unpack(value: Any) -> Any:
    if type(value) is dict:
        return {k: _unpack(v) for k, v in value.items()}
    return torch.from_numpy(value.values) if isinstance(value, _Small) else value


class Stack:
    """Makes a tensor of the rows of a batch, each at its place.

    A transform that says its shape writes into the row itself. What others make is copied there as it comes, so its own
    memory serves the next one.
    """

    def __init__(self, most: int, shape: Sequence[int] | None = None) -> None:
        self._most = most
        self._rows: Tensor | None = _room(most, shape, torch.float32) if shape else None
        self._values: NDArray[np.float32] | None = None if self._rows is None else self._rows.numpy()

    def row(self, at: int) -> NDArray[np.float32]:
        """Return the room of a row, of a stack whose shape was said."""
        assert self._values is not None
        return cast("NDArray[np.float32]", self._values[at])

    def put(self, at: int, row: Tensor) -> None:
        """Copy a tensor to its row."""
        if self._rows is None:
            self._rows = _room(self._most, row.shape, row.dtype)
        if row.shape != self._rows.shape[1:] or row.dtype != self._rows.dtype:
            was = f"{self._rows.dtype} of shape {list(self._rows.shape[1:])}"
            raise InvalidError(f"transform made {row.dtype} of shape {list(row.shape)} after {was}: it must give all images of a batch one shape and type")
        self._rows[at] = row

    def tensor(self, keep: list[int]) -> Tensor:
        """Return the rows to keep, in ascending order; the others' room is lost."""
        assert self._rows is not None
        for place, at in enumerate(keep):
            if place != at:
                self._rows[place] = self._rows[at]
        rows: Tensor = self._rows[: len(keep)]
        return rows


def _room(most: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return room for tensors; in a worker process, as default_collate does, in memory that the trainer's process can share."""
    out = torch.empty(0, dtype=dtype)
    if cast(Any, data).get_worker_info() is None:
        room: Tensor = out.resize_((most, *shape))
        return room
    of: Any = out
    storage = of._typed_storage() if hasattr(out, "_typed_storage") else of.storage()  # PyTorch 1.13
    return cast(Tensor, of.new(storage._new_shared(most * math.prod(shape))).resize_((most, *shape)))


def links(record: ScoredBatch, keep: list[int]) -> dict[str, Tensor]:
    """Return candidates, probabilities and known positives of the samples that are kept, as indices among these."""
    n, m = len(record.samples), record.m
    out: dict[str, Tensor] = {}
    for way, column, probs in (("i2t", record.i2t, record.prob_i2t), ("t2i", record.t2i, record.prob_t2i)):
        found, p = kept_links(column.reshape(n, m), probs.reshape(n, m), keep)
        out[way], out["prob_" + way] = torch.from_numpy(found), torch.from_numpy(p)
    same = np.zeros((n, n), dtype=bool)
    for i, sample in enumerate(record.samples):
        same[i, sample.partners] = True
    out["same_image"] = torch.from_numpy(same[np.ix_(keep, keep)])
    return out
