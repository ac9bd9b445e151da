"""The mini-batches of a plan, with images from where they lie in tars, as a dataset for torch's DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import torch
from torch.utils import data
from torch.utils.data import IterableDataset

from ..errors import CheckpointError
from ..plans import Plan, PlannedBatch, Shares
from ..records import GroupID, ImageRef, Positive, Sample, ScoredBatch
from .batch import Batch
from .images import Images, Transform
from .loading import Loading, processors


class PlannedTars(Loading, IterableDataset[Batch]):
    """Whole mini-batches of a plan: DataLoader(PlannedTars("plan", transform=..., tokenize=...), batch_size=None, num_workers=W).

    Images are read by tar and offset (`Images`), on local disks and in buckets, and checked by their hashes. The `Batch` is that
    of `ScoredBatches`, the same for every W. Of R ranks each has as many mini-batches, as `PlannedBatches` deals them out.

    Iteration goes to the end of the plan. After set_epoch it is that of one epoch: call it before each. state_dict says how far
    a batch is (its field after, by steps since the beginning), and load_state_dict goes on from there.
    """

    def __init__(
        self, plan: str | os.PathLike[str] | Plan, *,
        transform: Transform, tokenize: Callable[[list[str]], Any] | None = None, positives: bool = False, second: bool = False,
        seed: int = 0, rank: int | None = None, world: int | None = None, drop_last: bool = False, images: Images | None = None, threads: int = 4,
    ) -> None:  # fmt: skip
        Loading.__init__(self, transform, tokenize, images if images is not None else Images(), positives=positives, second=second, seed=seed)
        self.plan = plan if isinstance(plan, Plan) else Plan(plan)
        self._shares, self.threads = Shares(self.plan, rank, world, drop_last), threads
        # Shared with workers that outlive an epoch: the epoch and the step in it, or -1 and the step since the beginning.
        self._at = cast(Any, torch.tensor([-1, 0])).share_memory_()

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """Let iterations be those of an epoch, the next of them without as many mini-batches as step says."""
        if not 0 <= step < self._shares.count(epoch):
            raise CheckpointError(f"step is {step}, and epoch {epoch} has {self._shares.count(epoch)} steps of each of {self._shares.world} ranks (WORLD_SIZE)")
        self._at[0], self._at[1] = epoch, step

    def state_dict(self) -> dict[str, Any]:
        """Return where the next iteration begins, in steps since the beginning."""
        epoch, step = cast("list[int]", self._at.tolist())
        return {"step": step + sum(self._shares.count(e) for e in range(epoch))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state, to the end of the plan."""
        self._at[0], self._at[1] = -1, int(state["step"])

    def _bounds(self) -> tuple[int, int, int]:
        """Return the next iteration's first epoch, its first step there, and the epoch behind its last one."""
        epoch, step = cast("list[int]", self._at.tolist())
        if epoch >= 0:
            return epoch, step, epoch + 1
        return (*self._shares.locate(step), self.plan.epochs)

    def __len__(self) -> int:
        first, step, end = self._bounds()
        return max(0, sum(self._shares.count(epoch) for epoch in range(first, end)) - step)

    def __iter__(self) -> Iterator[Batch]:
        worker = cast(Any, data).get_worker_info()  # without annotations in PyTorch 1.13
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        first, skip, end = self._bounds()
        step = skip + sum(self._shares.count(epoch) for epoch in range(first))
        began = step
        with ThreadPoolExecutor(self.threads) as pool:
            for epoch in range(first, end):
                for where in self._shares.of(epoch)[skip:]:
                    step += 1
                    if (step - 1 - began) % workers != number:
                        continue  # another worker decodes it
                    batch = self.load(_record(self.plan.read(epoch % self.plan.epochs, where), epoch), pool, workers >= processors())
                    batch.after = {"step": step}
                    yield batch
                skip = 0


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
