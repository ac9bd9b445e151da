"""A model's moving average, whose features are keys, and the queue of the latest keys (ALBEF, TCL)."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


class Momentum(nn.Module, Generic[M]):
    """The average of a model, and a queue of features that are further negatives.

    Call `follow` before a batch and `push` after its losses. A step of the optimiser has accumulate batches: the average
    moves once for it, and its keys enter the queue together. Each rank has a queue of its own. All of it is in the state.
    """

    image: Tensor
    text: Tensor
    ids: Tensor
    counts: Tensor

    def __init__(self, model: M, width: int, *, decay: float = 0.995, queue: int = 0, accumulate: int = 1) -> None:
        super().__init__()
        self.average = copy.deepcopy(model)
        self.average.requires_grad_(False)
        self.decay, self.accumulate = decay, accumulate
        self.register_buffer("image", torch.zeros(queue, width))
        self.register_buffer("text", torch.zeros(queue, width))
        self.register_buffer("ids", torch.zeros(queue, 2, dtype=torch.int64))
        self.register_buffer("counts", torch.zeros(2, dtype=torch.int64))  # rows of the queue that are filled, batches seen
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []

    @property
    def step(self) -> int:
        """Return the number of whole steps before this batch."""
        return int(self.counts[1]) // self.accumulate

    @torch.no_grad()
    def follow(self, model: M) -> None:
        """Move the average towards the weights, before the first batch of a step."""
        if int(self.counts[1]) % self.accumulate:
            return
        weights = dict(model.named_parameters())
        for name, mean in self.average.named_parameters():
            mean.mul_(self.decay).add_(weights[name].detach(), alpha=1 - self.decay)

    def keys(self, image: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch's keys with the queue behind them, the newest first."""
        filled = int(self.counts[0])
        return torch.cat([image, self.image[:filled]]), torch.cat([text, self.text[:filled]])

    def same(self, ids: Tensor) -> Tensor:
        """Mark what in the queue shows an image of the batch."""
        queue = self.ids[: int(self.counts[0])]
        result: Tensor = (ids[:, None] == queue[None]).all(2)
        return result

    @torch.no_grad()
    def push(self, image: Tensor, text: Tensor, ids: Tensor) -> None:
        """Keep the keys of a batch. At the end of a step they come in front of the queue, and the oldest fall out."""
        self._waiting.append((image.detach(), text.detach(), ids))
        self.counts[1] += 1
        if int(self.counts[1]) % self.accumulate:
            return
        for keys in self._waiting:
            filled = min(len(self.image), int(self.counts[0]) + len(keys[2]))
            for queue, new in zip((self.image, self.text, self.ids), keys, strict=True):
                queue[:] = torch.cat([new.to(queue.dtype), queue])[: len(queue)]
            self.counts[0] = filled
        self._waiting = []
