"""A model's moving average, whose features are keys, and the queue of the latest keys (ALBEF, TCL)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)
_dist: Any = dist  # for what annotations of PyTorch leave out, in one version or another


@torch.no_grad()
def everyone(rows: Tensor) -> list[Tensor]:
    """Return the rows of every rank, in the order of the ranks and without gradients; these may have different numbers of rows.

    All ranks call it at the same time. Where there is one process, its own rows return.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return [rows.detach()]
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(dist.get_world_size())]
    _dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    numbers = [int(n) for n in counts]
    padded = rows.new_zeros(max(numbers), *rows.shape[1:])
    padded[: len(rows)] = rows.detach()
    all_rows = [torch.empty_like(padded) for _ in numbers]
    _dist.all_gather(all_rows, padded)
    return [of[:n] for of, n in zip(all_rows, numbers, strict=True)]


class Momentum(nn.Module, Generic[M]):
    """The average of a model, and a queue of features that are further negatives.

    Call `follow` before a batch, `push` after its losses, and `end` once all batches of a step are behind, before the optimiser's
    step. The average moves once a step. The keys of the step, of all ranks, then enter the queue, which is the same on every rank.
    All of it is in the state.
    """

    image: Tensor
    text: Tensor
    ids: Tensor
    counts: Tensor

    def __init__(self, model: M, width: int, *, decay: float = 0.995, queue: int = 0) -> None:
        super().__init__()
        self.average = copy.deepcopy(model)
        self.average.requires_grad_(False)
        self.decay = decay
        self.register_buffer("image", torch.zeros(queue, width))
        self.register_buffer("text", torch.zeros(queue, width))
        self.register_buffer("ids", torch.zeros(queue, 2, dtype=torch.int64))
        self.register_buffer("counts", torch.zeros(2, dtype=torch.int64))  # rows of the queue that are filled, steps behind
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self._followed = False

    @property
    def step(self) -> int:
        """Return the number of steps before this batch."""
        return int(self.counts[1])

    @torch.no_grad()
    def follow(self, model: M) -> None:
        """Move the average towards the weights, before the first batch of a step."""
        if self._followed:
            return
        self._followed = True
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

    def push(self, image: Tensor, text: Tensor, ids: Tensor) -> None:
        """Keep the keys of a batch until the end of the step."""
        self._waiting.append((image.detach(), text.detach(), ids))

    @torch.no_grad()
    def end(self, model: M) -> None:
        """End a step, on all ranks together: its keys come in front of the queue, and the oldest fall out.

        The keys stand as in the built-in trainer: the last batch of the last rank first. A rank without a batch calls it too.
        """
        self.follow(model)
        if len(self.image):
            self._enter([everyone(self._own(i, queue)) for i, queue in enumerate((self.image, self.text, self.ids))])
        self.counts[1] += 1
        self._waiting, self._followed = [], False

    def _own(self, part: int, queue: Tensor) -> Tensor:
        """Return the images, texts or ids that this rank has kept, those of the last batch first."""
        return torch.cat([keys[part].to(queue.dtype) for keys in reversed(self._waiting)] or [queue[:0]])

    def _enter(self, of_ranks: Sequence[list[Tensor]]) -> None:
        for queue, ranks in zip((self.image, self.text, self.ids), of_ranks, strict=True):
            queue[:] = torch.cat([*reversed(ranks), queue])[: len(queue)]
        self.counts[0] = min(len(self.image), int(self.counts[0]) + sum(map(len, of_ranks[0])))
