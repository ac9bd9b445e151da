"""A small crawl on disk, and scored mini-batches of it in the log."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from pairstream import Config, image_id, pair_id
from pairstream.producer import Publisher
from pairstream.records import GroupID, ImageRef, Mask, Positive, Sample, ScoredBatch, Seal
from pairstream.topics import SCORED

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "green", "blue", "dark", "bright", "square", "of", "number"] + [str(i) for i in range(10)]


@dataclass
class Picture:
    ref: ImageRef
    id: bytes
    caption: str


def draw(folder: Path, count: int = 24) -> list[Picture]:
    """Write a tar of small pictures."""
    path, out = folder / "crawl.tar", []
    r = np.random.default_rng(1)
    with tarfile.open(path, "w") as tar:
        for i in range(count):
            colour = r.integers(0, 256, 3)
            pixels = np.clip(colour + r.integers(-20, 20, (40, 48, 3)), 0, 255).astype(np.uint8)
            body = io.BytesIO()
            Image.fromarray(pixels).save(body, ("PNG", "JPEG", "WEBP")[i % 3])
            info = tarfile.TarInfo(f"{i}.png")
            info.size = len(body.getvalue())
            offset = tar.offset + 512
            tar.addfile(info, io.BytesIO(body.getvalue()))
            name = ("red", "green", "blue")[int(colour.argmax())]
            out.append(Picture(ImageRef(uri=path.as_uri(), offset=offset, size=info.size), image_id(body.getvalue()), f"a {name} square, number {i}"))
    return out


def sample(p: Picture, position: int, positive: Picture | None = None, partners: list[int] | None = None) -> Sample:
    return Sample(
        id=pair_id(p.id, p.caption), image_id=p.id, image=p.ref, text=p.caption, position=position,
        positive=Positive(image_id=positive.id, image=positive.ref) if positive else None, partners=np.array(partners or [], dtype="<i4"),
    )  # fmt: skip


def batch(pictures: list[Picture], lane: int, sequence: int, n: int = 6, m: int = 2, batches: int = 4, epoch: int = 0, masked: list[Mask] | None = None) -> ScoredBatch:
    """A batch of the lane's pictures, with the next ones as candidates."""
    start = (lane * 7 + sequence * n) % len(pictures)
    rows = [pictures[(start + i) % len(pictures)] for i in range(n)]
    samples = [sample(p, sequence * n + i, rows[(i + 1) % n] if i % 2 else None) for i, p in enumerate(rows)]
    ahead = np.array([[(i + k + 1) % n for k in range(m)] for i in range(n)], dtype="<i4").reshape(-1)
    behind = np.array([[(i - k - 1) % n for k in range(m)] for i in range(n)], dtype="<i4").reshape(-1)
    r = np.random.default_rng(100 * lane + sequence)
    p, q = (r.random(n * m).astype("<f4") for _ in range(2))
    for mask in masked or []:
        for probs, column in ((p, ahead), (q, behind)):
            probs[(column == mask.sample) | (np.repeat(np.arange(n), m) == mask.sample)] *= mask.positive
    return ScoredBatch(
        group=GroupID(lane=lane, seq=0), epoch=epoch, sequence=sequence, batches=batches, strategy="grit", samples=samples, m=m, i2t=ahead, t2i=behind,
        model="test", prob_i2t=p, prob_t2i=q, masked=masked or [], high=0.875,
    )  # fmt: skip


def score(config: Config, pictures: list[Picture], lanes: int, counts: list[int] | None = None, end: bool = True, n: int = 6) -> None:
    """Publish batches to every lane, counts[lane] of them, and the lanes' ends; a seal stands between."""
    with Publisher(config) as publisher:
        for lane in range(lanes):
            count = counts[lane] if counts else 4
            seq = 0
            for i in range(count):
                publisher.publish(SCORED, lane, batch(pictures, lane, i, batches=max(count, 1), n=n), seq=seq)
                publisher.publish(SCORED, lane, Seal(), seq=seq + 1)
                seq += 2
            if end:
                publisher.publish(SCORED, lane, Seal(final=True), seq=seq)
