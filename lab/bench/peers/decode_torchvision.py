"""Decoding and resizing with torchvision, image by image, and normalising as it does."""

import torch
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms.v2 import functional as F

import common
import decode


def load(raw, size):
    """Decode into bytes, whose resizing has kernels of its own, and normalise."""
    image = decode_jpeg(torch.frombuffer(bytearray(raw), dtype=torch.uint8), mode=ImageReadMode.RGB)
    image = F.resize(image, [size, size], interpolation=F.InterpolationMode.BICUBIC, antialias=True)
    return image.float().mul_(decode.SCALE).add_(decode.SHIFT)


class Decode(decode.Decode):
    load = staticmethod(load)


if __name__ == "__main__":
    common.serve(Decode)
