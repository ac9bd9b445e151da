"""pairstream.torch.ScoredBatches, from mini-batches of the tars' pairs in a log. The log is made before training."""

import numpy
from torch.utils.data import DataLoader

import common
import loaders
from pairstream import Config, pair_id
from pairstream.producer import Publisher
from pairstream.records import GroupID, Sample, ScoredBatch, Seal
from pairstream.shards import scan
from pairstream.topics import SCORED
from pairstream.torch import ScoredBatches

CANDIDATES = 2


class Pairstream(loaders.Loader):
    def prepare(self):
        with open(self.job.path("broker")) as f:
            self.config = Config(brokers=(f.read(),))
        pairs = [(example, caption) for example in scan(self.tars) for caption in example.captions]
        starts = range(0, len(pairs), self.batch)
        with Publisher(self.config) as publisher:
            for k, start in enumerate(starts):
                publisher.publish(SCORED, 0, self.record(pairs, k, start, len(starts)), seq=k)
            publisher.publish(SCORED, 0, Seal(final=True), seq=len(starts))

    def record(self, pairs, sequence, start, batches):
        samples = [
            Sample(id=pair_id(x.image_id, text), image_id=x.image_id, image=x.image, text=text, position=start + i, partners=numpy.array([], dtype="<i4"))
            for i, (x, text) in enumerate(pairs[start : start + self.batch])
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
