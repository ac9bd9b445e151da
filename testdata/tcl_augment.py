"""Makes tcl_augment.safetensors: what Pillow makes of a picture in the transforms of TCL's create_dataset.

torchvision's ColorJitter and RandomGrayscale call these functions of Pillow for a PIL image, and TCL's GaussianBlur calls
ImageFilter. Draws are inputs here: the operations in their order and their arguments, in the metadata `config`.

    pip install pillow==13.0.0 numpy==2.4.6
    python testdata/tcl_augment.py testdata/tcl_augment.safetensors
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

SIZES = [(24, 20), (19, 7), (2, 3), (1, 1)]  # width, height
OPERATIONS = [
    *[("brightness", f) for f in (0.6, 0.95, 1.37)],
    *[("contrast", f) for f in (0.61, 1.0, 1.4)],
    *[("saturation", f) for f in (0.6, 1.01, 1.4)],
    *[("hue", f) for f in (-0.1, -0.013, 0.002, 0.05, 0.1)],
    ("grey", 0.0),
    *[("blur", f) for f in (0.1, 0.55, 1.0, 1.42, 2.0)],
]


def change(image: Image.Image, name: str, value: float) -> Image.Image:
    """Return a picture after one operation."""
    if name == "brightness":
        return ImageEnhance.Brightness(image).enhance(value)
    if name == "contrast":
        return ImageEnhance.Contrast(image).enhance(value)
    if name == "saturation":
        return ImageEnhance.Color(image).enhance(value)
    if name == "hue":
        h, s, v = image.convert("HSV").split()
        turned = np.array(h, dtype=np.uint8) + np.int32(value * 255).astype(np.uint8)  # wraps around
        return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")
    if name == "grey":
        grey = np.array(image.convert("L"), dtype=np.uint8)
        return Image.fromarray(np.dstack([grey, grey, grey]))
    return image.filter(ImageFilter.GaussianBlur(radius=value))


def pictures() -> list[Image.Image]:
    """Return noise on colours that change from left to right and from top to bottom."""
    draw = np.random.default_rng(1)
    out = []
    for width, height in SIZES:
        x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
        base = np.stack([200 * x, 255 * y, 255 - 230 * x * y], axis=2)
        out.append(Image.fromarray(np.clip(base + draw.normal(0, 30, base.shape), 0, 255).astype(np.uint8)))
    return out


def main() -> None:
    """Write the file."""
    images = pictures()
    tensors = {f"in.image.{i}": np.array(im) for i, im in enumerate(images)}
    for i, im in enumerate(images):
        for o, (name, value) in enumerate(OPERATIONS):
            tensors[f"out.{o}.{i}"] = np.array(change(im, name, value))
    draw, calls = np.random.default_rng(2), []
    for c in range(12):
        factors = {name: draw.uniform(0.6, 1.4) for name in ("brightness", "contrast", "saturation")} | {"hue": draw.uniform(-0.1, 0.1)}
        order = [list(factors)[k] for k in draw.permutation(4)]
        steps = [[name, factors[name]] for name in order] if draw.random() < 0.8 else []
        steps += [["grey", 0.0]] if draw.random() < 0.2 else []
        steps += [["blur", draw.uniform(0.1, 2.0)]] if draw.random() < 0.5 else []
        im = images[c % 2]
        for name, value in steps:
            im = change(im, name, value)
        calls.append({"image": c % 2, "steps": steps})
        tensors[f"out.call.{c}"] = np.array(im)
    header: dict[str, object] = {"__metadata__": {"config": json.dumps({"operations": OPERATIONS, "calls": calls})}}
    body = b""
    for name in sorted(tensors):
        data = tensors[name].tobytes()
        header[name] = {"dtype": "U8", "shape": list(tensors[name].shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(sys.argv[1]).write_bytes(struct.pack("<Q", len(text)) + text + body)


main()
