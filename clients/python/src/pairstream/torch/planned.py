"""The mini-batches of a plan, with images from where they lie in tars, as a dataset for torch's DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import torch
from torch.utils import data
from torch.utils.data import IterableDataset

from ..plans import Plan, PlannedBatch, Shares
from ..records import GroupID, ImageRef, Positive, Sample, ScoredBatch
from .batch import Batch
from .images import Images, Transform
from .loading import Loading, processors

State = dict[str, Any]


class PlannedTars(Loading, IterableDataset[Batch]):
    """Whole mini-batches of a plan: DataLoader(PlannedTars("plan", transform=..., tokenize=...), batch_size=None, num_workers=W).

    Images are read by tar and offset (`Images`), on local disks and in buckets, and checked by their hashes. The `Batch` is that
    of `ScoredBatches`, the same for every W. Of R ranks each has as many mini-batches, as `PlannedBatches` deals them out.

    Iteration goes to the end of the plan. After set_epoch it is that of one epoch: call it before each. A batch has the place behind
    it in its field after, and load_state_dict goes on from there. Places count the mini-batches of all ranks, as those of
    `PlannedBatches`, so the number of ranks may change. state_dict is the place of this process, as StatefulDataLoader asks for it.
    """

    def __init__(
        self, plan: str | os.PathLike[str] | Plan, *,
        transform: Transform, tokenize: Callable[[list[str]], Any] | None = None, positives: bool = False, second: bool = False,
        seed: int = 0, rank: int | None = None, world: int | None = None, drop_last: bool = False, images: Images | None = None, threads: int = 4,
    ) -> None:  # fmt: skip
        Loading.__init__(self, transform, tokenize, images if images is not None else Images(), positives=positives, second=second, seed=seed)
        self.plan = plan if isinstance(plan, Plan) else Plan(plan)
        self._shares, self.threads = Shares(self.plan, rank, world, drop_last), threads
        # Shared with workers that outlive an epoch: whether iterations are those of one epoch, and the place where the next one begins.
        self._at = cast(Any, torch.tensor([0, 0, 0])).share_memory_()
        self._now: State | None = None  # behind the last batch of this process, and how many batches the workers had had turns at
        self._loaded: State | None = None  # where a worker goes on from

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """Let iterations be those of an epoch, the next of them without as many mini-batches, of all ranks together, as step says."""
        self._shares.check(epoch, step)
        self._begin(1, epoch, step)

    def _begin(self, alone: int, epoch: int, step: int) -> None:
        self._at[0], self._at[1], self._at[2] = alone, epoch, step
        self._now = None

    def state_dict(self) -> State:
        """Return the place behind the last batch that this process has made, or where the next iteration begins."""
        if self._now is not None:
            return dict(self._now)
        _, epoch, done = cast("list[int]", self._at.tolist())
        return self._shares.state(epoch, done)

    def load_state_dict(self, state: State) -> None:
        """Go on from a state, to the end of the plan. The state may be that of another number of ranks."""
        place = self._shares.place(state)
        if _worker() is None:
            self._begin(0, *place)
        else:
            self._now = self._loaded = dict(state)  # each has its own

    def _bounds(self) -> tuple[int, int, int]:
        """Return the next iteration's first epoch, the mini-batches there that all ranks have had, and the epoch behind its last one."""
        alone, epoch, done = cast("list[int]", self._at.tolist())
        return epoch, done, epoch + 1 if alone else self.plan.epochs

    def __len__(self) -> int:
        first, done, end = self._bounds()
        return max(0, sum(self._shares.count(epoch, done if epoch == first else 0) for epoch in range(first, end)))

    def __iter__(self) -> Iterator[Batch]:
        first, done, end = self._bounds()
        if self._loaded is not None:
            first, done = self._shares.place(self._loaded)
        turn = self._loaded.get("turn", 0) if self._loaded else 0
        self._loaded, self._now = None, self._shares.state(first, done) | {"turn": turn}
        return self._batches(range(first, end), done, turn)

    def _batches(self, epochs: Iterable[int], done: int, turn: int) -> Iterator[Batch]:
        """Make this process's mini-batches behind those that all ranks have had in the first epoch. Workers take turns."""
        worker = _worker()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        with ThreadPoolExecutor(self.threads) as pool:
            for epoch in epochs:
                for where in self._shares.of(epoch, done):
                    done += self._shares.world
                    turn += 1
                    if (turn - 1) % workers != number:
                        continue  # another worker decodes it
                    batch = self.load(_record(self.plan.read(epoch % self.plan.epochs, where), epoch), pool, workers >= processors())
                    batch.after = self._shares.state(epoch, done)
                    self._now = batch.after | {"turn": turn}
                    yield batch
                done = 0


def _worker() -> Any:
    """Return what torch tells a worker process of a loader about itself; None elsewhere."""
    return cast(Any, data).get_worker_info()  # without annotations in PyTorch 1.13


def _record(b: PlannedBatch, epoch: int) -> ScoredBatch:
    """Make the record of a mini-batch, as a stream has it. Samples that are masked are not in it."""
    samples = []
    for i, place in enumerate(b.places):
        found = b.positives[i]
        positive = Positive(image_id=bytes.fromhex(found[0]), image=_reference(*found[1])) if found else None
        samples.append(Sample(
            id=bytes.fromhex(b.pairs[i]), image_id=bytes.fromhex(b.images[i]), image=_reference(*place), text=b.texts[i], replaced=bool(b.replaced[i]),
            position=int(b.positions[i]), positive=positive, partners=np.flatnonzero(b.same_image[i]).astype("<i4"),
        ))  # fmt: skip
    columns: dict[str, Any] = {"i2t": b.i2t.astype("<i4"), "t2i": b.t2i.astype("<i4"), "prob_i2t": b.prob_i2t, "prob_t2i": b.prob_t2i}
    return ScoredBatch(
        group=GroupID(lane=b.lane, seq=b.group), epoch=epoch, sequence=b.sequence, batches=b.sequence + 1, strategy="grit", samples=samples,
        m=b.i2t.shape[1], model="plan", high=b.high, **{name: column.reshape(-1) for name, column in columns.items()},
    )  # fmt: skip


def _reference(uri: str, offset: int, size: int, copy: str) -> ImageRef:
    return ImageRef(uri=uri, offset=offset, size=size, copy=bytes.fromhex(copy))
