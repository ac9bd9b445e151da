"""Decoding and resizing with PIL, and normalising as torchvision does."""

import io

import numpy
import torch
from PIL import Image

import common

MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073])[:, None, None]
STD = torch.tensor([0.26862954, 0.26130258, 0.27577711])[:, None, None]
SCALE, SHIFT = 1 / 255 / STD, -MEAN / STD


def load(raw, size):
    image = Image.open(io.BytesIO(raw))
    image.draft("RGB", (2 * size, 2 * size))  # lets libjpeg shrink the image where it stays large enough
    image = image.convert("RGB").resize((size, size), Image.BICUBIC)
    return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float().mul_(SCALE).add_(SHIFT)


def read(job):
    files = []
    for i in range(job.option("images")):
        with open(job.path(f"photo-{i:03d}.jpg"), "rb") as f:
            files.append(f.read())
    return files


class Decode:
    load = staticmethod(load)

    def __init__(self, job):
        torch.set_num_threads(job.threads)
        self.job, self.size, self.files = job, job.option("size"), read(job)

    def run(self):
        self.pixels = torch.stack([self.load(raw, self.size) for raw in self.files])

    def check(self):
        ours = torch.from_numpy(self.job.floats("decoded.f32", 3 * self.size * self.size)).view(self.pixels.shape)
        return {"mean_levels": ((ours - self.pixels).abs() * STD * 255).mean()}


if __name__ == "__main__":
    common.serve(Decode)
