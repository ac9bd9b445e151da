"""Where a caption lies in an image: ALBEF's Grad-CAM on cross-attention, and the boxes that it chooses (Li et al. 2021, section 5).

    python examples/grounding.py data/checkpoints/LAST.safetensors --image cat.jpg --text 'the cat on the left' --out map.png
    python examples/grounding.py data/checkpoints/LAST.safetensors --list refcoco+_val.json --images data/coco

The map is the cross-attention of one fusion layer, the third as in ALBEF, times what of its gradient is positive: that of the matching
head's score. It is the mean over heads and words. A list has image, text, boxes (proposals, such as a detector's) and box (the right one),
each [x, y, width, height] in pixels. A box is chosen by the sum of the map in it, divided by the root of its area. It is right when it shares
half of the union with the right one. Nothing is trained on boxes; fine-tune on the list's texts and images with `pairstream finetune` first.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from albef import ALBEF, PADDED
from PIL import Image
from torch import Tensor
from torch.nn import functional

from pairstream.picture import decode
from pairstream.torch import pre_caption, resize
from pairstream.torch.wordpiece import WordPiece

Box = list[float]  # x, y, width, height


def cross_attention(layer: Any, x: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
    """The cross-attention of a layer as the model computes it, and its weights [n, heads, tokens, patches]."""
    part = layer.crossattention
    q, k, v = (f(y).unflatten(-1, (part.heads, -1)).transpose(1, 2) for f, y in ((part.self.query, x), (part.self.key, images), (part.self.value, images)))
    weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
    return part.output.LayerNorm(part.output.dense((weights @ v).transpose(1, 2).flatten(2)) + x), weights


def match(model: ALBEF, pixels: Tensor, ids: Tensor, mask: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """The score of a match [n], and the weights by which a fusion layer sees the image."""
    images, x, scores = model.visual_encoder(pixels), model.text(ids, mask), ((1 - mask.to(pixels.dtype)) * PADDED)[:, None, None]
    for i, of in enumerate(model.text_encoder.bert.encoder.layer[model.shape.fusion_layer :]):
        if i != layer:
            x = of(x, scores, images)
            continue
        x, weights = cross_attention(of, of.attention(x, x, scores), images)
        x = of.output.LayerNorm(of.output.dense(functional.gelu(of.intermediate.dense(x))) + x)
    return model.itm_head(x[:, 0])[:, 1], weights


def maps(model: ALBEF, pixels: Tensor, ids: Tensor, mask: Tensor, layer: int = 2) -> Tensor:
    """The map of each word [n, tokens, side, side], 0 for padding; its mean over words is that of the caption."""
    layer = min(layer, model.shape.text_layers - model.shape.fusion_layer - 1)
    score, weights = match(model, pixels, ids, mask, layer)
    (gradient,) = torch.autograd.grad(score.sum(), weights)
    seen = (weights.detach() * gradient.clamp(min=0))[..., 1:].mean(1) * mask[..., None]  # the first is [CLS]
    side = model.shape.image_size // model.shape.patch_size
    return seen.unflatten(-1, (side, side))


def choose(heat: Tensor, boxes: list[Box], width: int, height: int) -> int:
    """The number of the box with the most heat for the root of its area; heat [side, side] covers an image of width x height pixels."""
    heat = functional.interpolate(heat[None, None], (height, width), mode="bicubic", align_corners=False)[0, 0]
    sums = [float(heat[int(y) : int(y + h), int(x) : int(x + w)].sum()) / max(1.0, w * h) ** 0.5 for x, y, w, h in boxes]
    return max(range(len(boxes)), key=sums.__getitem__)


def overlap(a: Box, b: Box) -> float:
    """The area that two boxes share, as a part of that of both together."""
    sides = [max(0.0, min(a[i] + a[i + 2], b[i] + b[i + 2]) - max(a[i], b[i])) for i in (0, 1)]
    shared = sides[0] * sides[1]
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


class Grounding:
    """A model that looks for captions in images."""

    def __init__(self, model: ALBEF, words: int = 30) -> None:
        assert model.vocab is not None
        self.model, self.words = model.eval(), words
        for module in model.modules():  # dropout would draw another map each time
            if hasattr(module, "dropout"):
                module.dropout = 0.0
        self.tokenize = WordPiece(model.vocab).padded(min(words, model.shape.max_positions))

    def heat(self, image: Image.Image, text: str) -> Tensor:
        """The map of a caption [side, side], the mean over its words."""
        pixels, tokens = resize(self.model.shape.image_size)(image, None)[None], self.tokenize([pre_caption(text, self.words)])
        return maps(self.model, pixels, tokens["input_ids"], tokens["attention_mask"])[0].sum(0) / tokens["attention_mask"].sum()

    def draw(self, image: Image.Image, text: str) -> Image.Image:
        """The image, red where the caption lies."""
        heat = self.heat(image, text)
        heat = functional.interpolate((heat / heat.max().clamp(min=1e-12))[None, None], (image.height, image.width), mode="bicubic", align_corners=False)[0, 0]
        share = Image.fromarray((heat.clamp(0, 1) * 200).byte().numpy())
        return Image.composite(Image.new("RGB", image.size, (255, 0, 0)), image.convert("RGB"), share)

    def accuracy(self, rows: list[dict[str, Any]], images: Path) -> float:
        """The share of rows whose chosen box is right."""
        right = 0
        for row in rows:
            image = decode((images / row["image"]).read_bytes())
            right += overlap(row["boxes"][choose(self.heat(image, row["text"]), row["boxes"], image.width, image.height)], row["box"]) >= 0.5
        return right / len(rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="safetensors file of pairstream")
    parser.add_argument("--image", type=Path, help="image to draw the map of --text on")
    parser.add_argument("--text")
    parser.add_argument("--out", type=Path, default=Path("map.png"))
    parser.add_argument("--list", type=Path, help="list of image, text, boxes and box")
    parser.add_argument("--images", type=Path, default=Path(), help="folder that the list's names begin in")
    args = parser.parse_args(argv)
    if not args.list and not (args.image and args.text):
        parser.error("want --image and --text, or --list")
    grounding = Grounding(ALBEF.load(args.weights))
    if args.list:
        print(f"accuracy: {grounding.accuracy(json.loads(args.list.read_text()), args.images):.4f}")
    else:
        grounding.draw(decode(args.image.read_bytes()), args.text).save(args.out)
        print(f"drawn in {args.out}")


if __name__ == "__main__":
    main()
