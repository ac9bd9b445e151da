"""What the loaders of the row share: one transform, mini-batches of the same size, and how an epoch is measured.

Every loader reads the same tars with the same number of DataLoader's workers, and decodes with PIL.
"""

import io
import resource

import numpy
import torch
from PIL import Image
from pairstream.rng import generator
from pairstream.torch import resize


def cpu_seconds():
    """The processor time of this process and of workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class Pixels:
    """Makes a tensor of an image file or of a PIL image. A class, so that workers can be given it."""

    def __init__(self, size):
        self.transform, self.draw = resize(size), generator(0, "not used")

    def __call__(self, image):
        if isinstance(image, bytes):
            image = Image.open(io.BytesIO(image)).convert("RGB")
        return self.transform(image, self.draw)


class Loader:
    """A side of the row. loader() makes a new DataLoader; batches() yields pairs of images and captions of it."""

    def __init__(self, job):
        torch.set_num_threads(1)  # images are a worker's work
        self.job, self.batch, self.workers = job, job.option("batch"), job.option("workers")
        self.tars = [job.path(f"{i:05d}.tar") for i in range(job.option("tars"))]
        self.pixels = Pixels(job.option("size"))
        self.prepare()

    def prepare(self):
        """Do what comes before training."""

    def run(self):
        """Load an epoch."""
        cpu, pairs = cpu_seconds(), 0
        for images, captions in self.batches():
            assert len(images) == len(captions) <= self.batch
            pairs += len(images)
        return {"pairs": pairs, "cpu_seconds": cpu_seconds() - cpu}

    def check(self):
        """Say what the images and the captions of an epoch come to, in any order."""
        pairs, sums, letters = 0, [], 0
        for images, captions in self.batches():
            pairs += len(images)
            sums += images.double().pow(2).mean((1, 2, 3)).tolist()
            letters += sum(len(c) * (1 + c.encode()[-1]) for c in captions)
        return {"pairs": pairs, "squares": numpy.sort(sums) @ numpy.arange(1, pairs + 1) / pairs, "letters": letters}
