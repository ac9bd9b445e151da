"""pairstream.torch.ScoredBatches, from mini-batches of the tars' pairs in a log. The log is made before training."""

import tarfile
from pathlib import Path

import numpy
from torch.utils.data import DataLoader

import common
import loaders
from pairstream import Config, image_id, pair_id
from pairstream.producer import Publisher
from pairstream.records import GroupID, ImageRef, Sample, ScoredBatch, Seal
from pairstream.topics import SCORED
from pairstream.torch import ScoredBatches

CANDIDATES = 2


def pairs_of(path):
    """The pairs of a tar: a reference to each image, its id and its caption."""
    images, captions = {}, {}
    with tarfile.open(path) as tar:
        for member in tar:
            key, _, kind = member.name.rpartition(".")
            body = tar.extractfile(member).read()
            if kind == "txt":
                captions[key] = body.decode()
            elif kind == "jpg":
                images[key] = ImageRef(uri=Path(path).resolve().as_uri(), offset=member.offset_data, size=member.size), image_id(body)
    return [(*images[key], caption) for key, caption in captions.items()]


class Pairstream(loaders.Loader):
    def prepare(self):
        with open(self.job.path("broker")) as f:
            self.config = Config(brokers=(f.read(),))
        pairs = [pair for path in self.tars for pair in pairs_of(path)]
        starts = range(0, len(pairs), self.batch)
        with Publisher(self.config) as publisher:
            for k, start in enumerate(starts):
                publisher.publish(SCORED, 0, self.record(pairs, k, start, len(starts)), seq=k)
            publisher.publish(SCORED, 0, Seal(final=True), seq=len(starts))

    def record(self, pairs, sequence, start, batches):
        samples = [
            Sample(id=pair_id(of, text), image_id=of, image=ref, text=text, position=start + i, partners=numpy.array([], dtype="<i4"))
            for i, (ref, of, text) in enumerate(pairs[start : start + self.batch])
        ]
        n = len(samples)
        others = numpy.array([[(i + k + 1) % n for k in range(CANDIDATES)] for i in range(n)], dtype="<i4").reshape(-1)
        chances = numpy.zeros(n * CANDIDATES, dtype="<f4")
        return ScoredBatch(
            group=GroupID(lane=0, seq=0), epoch=0, sequence=sequence, batches=batches, strategy="grit", samples=samples, m=CANDIDATES,
            i2t=others, t2i=others, model="none", prob_i2t=chances, prob_t2i=chances,
        )

    def batches(self):
        scored = ScoredBatches(self.config, transform=self.pixels.transform, lanes=[0], rank=0, world=1)
        for batch in DataLoader(scored, batch_size=None, num_workers=self.workers):
            yield batch.images, batch.texts


if __name__ == "__main__":
    common.serve(Pairstream)
