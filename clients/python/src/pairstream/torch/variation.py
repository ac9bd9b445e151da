"""What varies training images: the operations of the built-in trainer, with its draws.

`randaugment` and `distort` are ALBEF's RandAugment and TCL's changes of colours, grey and blur. The reference vectors of both
are met as the Go programs meet them. docs/papers.md has the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from ..rng import Generator

OPERATIONS = ("Identity", "AutoContrast", "Equalize", "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_SIGNED = OPERATIONS[5:]
_GREY = 128  # what a warp brings in from outside
_PLACE, _WEIGHT = 32, 10  # binary places of a place in the source, and of the weights of its four pixels

Pixels = NDArray[np.uint8]
Step = tuple[str, float]


def randaugment(image: Image.Image, count: int, level: int, draw: Generator) -> Image.Image:
    """Vary a picture by some of the ten operations, each done half of the time, at a level of 0 to 10."""
    return perform(image, [OPERATIONS[draw.integer(len(OPERATIONS))] for _ in range(count)], level, draw.random)


def perform(image: Image.Image, drawn: Sequence[str], level: int, uniform: Callable[[], float]) -> Image.Image:
    """Perform operations that were drawn; their further draws are uniform numbers in the authors' order."""
    for name in drawn:
        if uniform() > 0.5:
            continue
        negative = False
        if name in _SIGNED:
            u = uniform()
            negative = u < 0.5 if name == "Rotate" else u > 0.5
        image = operate(image, name, level, negative)
    return image


def operate(image: Image.Image, name: str, level: int, negative: bool) -> Image.Image:
    """Perform one operation of RandAugment at a level, with the sign of its argument."""
    share = level / 10
    factor, signed = 1.8 * share + 0.1, -share if negative else share
    if name == "AutoContrast":
        return ImageOps.autocontrast(image)
    if name == "Equalize":
        return ImageOps.equalize(image)
    if name == "Brightness":
        table = np.minimum(255, np.arange(256, dtype=np.float32) * np.float32(factor)).astype(np.uint8)
        return Image.fromarray(table[np.asarray(image)])
    if name == "Sharpness":
        return _sharpen(image, factor)
    if name == "Identity":
        return image
    sin, cos = math.sin(math.radians(30 * signed)), math.cos(math.radians(30 * signed))
    x, y = image.width / 2, image.height / 2
    return _warp(image, {
        "ShearX": (1, -0.3 * signed, 0, 0, 1, 0),
        "ShearY": (1, 0, 0, -0.3 * signed, 1, 0),
        "TranslateX": (1, 0, 10 * signed, 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, 10 * signed),
        "Rotate": (cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y),
    }[name])  # fmt: skip


def _sharpen(image: Image.Image, factor: float) -> Image.Image:
    """Move every pixel but those of the border away from the smoothed picture. What leaves 0..255 wraps, as in the authors' code."""
    p = np.asarray(image).astype(np.int32)
    out = p.copy()
    if min(p.shape[:2]) > 2:
        middle = p[1:-1, 1:-1]
        around = sum(p[1 + dy : p.shape[0] - 1 + dy, 1 + dx : p.shape[1] - 1 + dx] for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - middle
        smooth = ((2 * (around + 5 * middle) + 13) // 26).astype(np.float32)
        out[1:-1, 1:-1] = (smooth + np.float32(factor) * (middle.astype(np.float32) - smooth)).astype(np.int32)
    return Image.fromarray((out & 255).astype(np.uint8))


def _warp(image: Image.Image, inverse: tuple[float, float, float, float, float, float]) -> Image.Image:
    """Fill a picture from the places of another, interpolated linearly: x' = xx x + xy y + x0, y' = yx x + yy y + y0."""
    xx, xy, x0, yx, yy, y0 = inverse

    def fixed(value: float) -> int:
        return math.floor(value * (1 << _PLACE) + 0.5) if value >= 0 else -math.floor(-value * (1 << _PLACE) + 0.5)

    w, h = image.width, image.height
    columns = np.arange(w, dtype=np.int64)
    px = np.array([fixed(xy * y + x0) for y in range(h)], dtype=np.int64)[:, None] + fixed(xx) * columns
    py = np.array([fixed(yy * y + y0) for y in range(h)], dtype=np.int64)[:, None] + fixed(yx) * columns
    one = 1 << _WEIGHT
    fx, fy = (px >> (_PLACE - _WEIGHT) & one - 1), (py >> (_PLACE - _WEIGHT) & one - 1)
    padded = np.full((h + 3, w + 3, 3), _GREY, dtype=np.int64)  # one pixel before, two behind
    padded[1 : h + 1, 1 : w + 1] = np.asarray(image)
    x, y = np.clip(px >> _PLACE, -1, w), np.clip(py >> _PLACE, -1, h)
    # Beyond the border all four pixels are grey: what is cut off there has another fraction, and the same value.
    total = np.full((h, w, 3), 1 << (2 * _WEIGHT - 1), dtype=np.int64)
    for dy, wy in ((0, one - fy), (1, fy)):
        for dx, wx in ((0, one - fx), (1, fx)):
            near = (px >> _PLACE == x) & (py >> _PLACE == y)
            values = np.where(near[..., None], padded[y + 1 + dy, x + 1 + dx], _GREY)
            total += (wy * wx)[..., None] * values
    return Image.fromarray((total >> 2 * _WEIGHT).astype(np.uint8))


def draw_distortion(draw: Generator) -> list[Step]:
    """Draw what TCL does with a picture between crop and mirroring: jitter of colours 0.8, grey 0.2, blur 0.5."""

    def within(low: float, high: float) -> float:
        return low + (high - low) * draw.random()

    steps: list[Step] = []
    if draw.random() < 0.8:
        names = ("brightness", "contrast", "saturation", "hue")
        order = draw.permutation(4)
        values = [within(0.6, 1.4) for _ in range(3)] + [within(-0.1, 0.1)]
        steps = [(names[i], values[i]) for i in order]
    if draw.random() < 0.2:
        steps.append(("grey", 0.0))
    if draw.random() < 0.5:
        steps.append(("blur", within(0.1, 2.0)))
    return steps


def distort(image: Image.Image, steps: Sequence[Step]) -> Image.Image:
    """Perform steps of a distortion with Pillow, as torchvision does for TCL."""
    for name, value in steps:
        if name == "brightness":
            image = ImageEnhance.Brightness(image).enhance(value)
        elif name == "contrast":
            image = ImageEnhance.Contrast(image).enhance(value)
        elif name == "saturation":
            image = ImageEnhance.Color(image).enhance(value)
        elif name == "hue":
            h, s, v = image.convert("HSV").split()
            turned = np.asarray(h) + np.uint8(int(value * 255) & 255)  # wraps around
            image = Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")
        elif name == "grey":
            image = image.convert("L").convert("RGB")
        else:
            image = image.filter(ImageFilter.GaussianBlur(value))
    return image


def crop(width: int, height: int, min_scale: float, draw: Generator) -> tuple[float, float, float, float]:
    """Draw a rectangle of min_scale..1 of the area, between 3:4 and 4:3."""
    for _ in range(10):
        area = width * height * (min_scale + (1 - min_scale) * draw.random())
        ratio = math.exp(math.log(4 / 3) * (2 * draw.random() - 1))
        w, h = math.floor(math.sqrt(area * ratio) + 0.5), math.floor(math.sqrt(area / ratio) + 0.5)
        if 1 <= w <= width and 1 <= h <= height:
            x, y = draw.integer(width - w + 1), draw.integer(height - h + 1)
            return x, y, x + w, y + h
    w, h = min(width, max(1, height * 4 // 3)), min(height, max(1, width * 4 // 3))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h
