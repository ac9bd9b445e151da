"""Decoding with simplejpeg, at the smallest scale that is not below the wanted size, resizing with torchvision, and normalising."""

import simplejpeg
import torch
from torchvision.transforms.v2 import functional as F

import common
import decode


def load(raw, size):
    image = torch.from_numpy(simplejpeg.decode_jpeg(raw, min_height=size, min_width=size)).permute(2, 0, 1)
    image = F.resize(image, [size, size], interpolation=F.InterpolationMode.BICUBIC, antialias=True)
    return image.float().mul_(decode.SCALE).add_(decode.SHIFT)


class Decode(decode.Decode):
    load = staticmethod(load)


if __name__ == "__main__":
    common.serve(Decode)
