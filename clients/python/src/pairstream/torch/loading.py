"""Mini-batches with their images, for whatever names the samples."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import torch
from torch import Tensor

from ..errors import ImageError
from ..records import Sample, ScoredBatch
from ..rng import generator
from .batch import Batch, Stack, links
from .images import Images, Sized, Transform


class Loading:
    """Loads the images of scored mini-batches, and tokenizes their texts."""

    def __init__(self, transform: Transform, tokenize: Callable[[list[str]], Any] | None, images: Images, *, positives: bool, second: bool, seed: int) -> None:
        self.transform, self.tokenize, self.images = transform, tokenize, images
        self.positives, self.second, self.seed = positives, second, seed

    def load(self, record: ScoredBatch, pool: ThreadPoolExecutor, alone: bool) -> Batch:
        """Read the images of a mini-batch, and make it what a model takes. alone: with as many processes as processors."""
        gone = {(m.sample, m.positive): m.reason for m in record.masked}
        asked = [(s.image, s.image_id) for s in record.samples] + [(s.positive.image, s.positive.image_id) for s in record.samples if self.positives and s.positive]
        refs = [ref for ref, _ in asked]
        self.images.announce(refs, [image for _, image in asked])
        # Threads wait for buckets. On one processor and with files, they would do nothing but wait for one another.
        each = map if alone and all(r.uri.startswith("file:") for r in refs) else pool.map
        shape = self.transform.shape if isinstance(self.transform, Sized) else None
        images, positives, second = (Stack(len(record.samples), shape) for _ in range(3))
        keep, lost = [], None
        for row, made in enumerate(each(lambda row: self._sample(record, row, gone, images, positives, second), range(len(record.samples)))):
            if isinstance(made, ImageError):
                lost = lost or made
                continue
            keep.append(row)
            if made[0] is not None:
                images.put(row, made[0])
            if made[1] is not None:
                positives.put(row, made[1])
            if made[2] is not None:
                second.put(row, made[2])
        if not keep:
            raise ImageError(f"no sample of batch {record.sequence} of group {record.group}, epoch {record.epoch}, has a readable image: {lost}")
        texts = [record.samples[i].text for i in keep]
        return Batch(
            lane=record.group.lane, group=record.group, epoch=record.epoch, sequence=record.sequence, seed=self.seed,
            positions=torch.tensor([record.samples[i].position for i in keep]), texts=texts, tokens=self.tokenize(texts) if self.tokenize else None,
            images=images.tensor(keep), positives=positives.tensor(keep) if self.positives else None, dropped=len(record.samples) - len(keep),
            second=second.tensor(keep) if self.second else None, high=record.high,
            image_ids=torch.tensor([struct.unpack("<qq", record.samples[i].image_id) for i in keep]),
            **cast(dict[str, Any], links(record, keep)),
        )  # fmt: skip

    def _sample(
        self, record: ScoredBatch, row: int, gone: dict[tuple[int, bool], str], images: Stack, positives: Stack, second: Stack
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None] | ImageError:
        """Return the sample's image, what it should be close to, and its second view, as far as they are not in their rows already.

        It returns an error if the record masks the sample, or its image cannot be read.
        """
        sample = record.samples[row]
        if (row, False) in gone:
            return ImageError(f"image {sample.image_id.hex()} is masked: {gone[row, False]}")
        try:
            image = self._view(record, "image", row, sample, images, own=True)
            positive = self._view(record, "positive", row, sample, positives, own=(row, True) in gone) if self.positives else None
            return image, positive, self._view(record, "second view", row, sample, second, own=True) if self.second else None
        except ImageError as err:
            return err

    def _view(self, record: ScoredBatch, purpose: str, row: int, sample: Sample, to: Stack, *, own: bool) -> Tensor | None:
        """Make a variation of the sample's own image, or of its positive if it has one. It returns what is not in its row already."""
        ref, image = sample.image, sample.image_id
        if not own and sample.positive is not None:
            ref, image = sample.positive.image, sample.positive.image_id
        draw = generator(self.seed, purpose, record.group.lane, record.group.seq, record.epoch, record.sequence, row)
        picture = self.images.decode(ref, image)
        if isinstance(self.transform, Sized):
            self.transform.write(picture, draw, to.row(row))
            return None
        return self.transform(picture, draw)


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
