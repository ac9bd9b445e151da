"""examples/grounding.py finds the part of a picture that a caption tells of."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from crawl import WORDS
from PIL import Image
from torch.nn import functional

from pairstream.torch import resize
from pairstream.torch.wordpiece import WordPiece

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import albef
import grounding

COLOURS = {"red": (200, 40, 30), "green": (30, 190, 50), "blue": (40, 50, 210)}


QUARTERS: list[grounding.Box] = [[0, 0, 16, 16], [16, 0, 16, 16], [0, 16, 16, 16], [16, 16, 16, 16]]


def square(colour: str, quarter: int) -> Image.Image:
    image = Image.new("RGB", (32, 32), (120, 120, 120))
    x, y, w, h = map(int, QUARTERS[quarter])
    image.paste(COLOURS[colour], (x, y, x + w, y + h))
    return image


def small(**sizes: Any) -> albef.ALBEF:
    torch.manual_seed(0)
    return albef.ALBEF(albef.Shape(vocab_size=len(WORDS), **sizes), albef.Recipe(dropout=0), WORDS)


def test_maps_are_attention_times_its_gradient() -> None:
    model = small().double().eval()
    tokens = WordPiece(WORDS).padded(12)(["a red square", "a dark green square"])
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    pixels = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    score, weights = grounding.match(model, pixels, ids, mask, 1)
    fused = model.fuse(model.text(ids, mask), mask, model.visual_encoder(pixels))
    torch.testing.assert_close(score, model.itm_head(fused[:, 0])[:, 1])
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    (gradient,) = torch.autograd.grad(score.sum(), weights)
    found = grounding.maps(model, pixels, ids, mask, 1)
    assert found.shape == (2, ids.shape[1], 4, 4) and (found >= 0).all() and (found > 0).any()
    want = sum((weights[1, h, 2, 5] * max(0.0, float(gradient[1, h, 2, 5]))).detach() for h in range(4)) / 4
    assert float(found[1, 2, 1, 0]) == pytest.approx(float(want))  # patch 5 is the fifth behind [CLS]
    assert not found[0, int(mask[0].sum()) :].any()


def test_boxes() -> None:
    heat = torch.zeros(4, 4)
    heat[1, 2] = 1.0
    boxes: list[grounding.Box] = [[0, 0, 40, 80], [80, 20, 40, 20], [0, 0, 160, 80]]
    assert grounding.choose(heat, boxes, 160, 80) == 1, "the smaller of two that hold it"
    assert grounding.overlap([0, 0, 2, 2], [1, 0, 2, 2]) == pytest.approx(1 / 3) and grounding.overlap([0, 0, 1, 1], [2, 2, 1, 1]) == 0


def test_a_caption_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model learns which caption holds for a picture. Where the square lies, nothing has told it."""
    model = small(vision_depth=0, text_layers=2, fusion_layer=1)
    with torch.no_grad():  # as large as those of a trained model: from small ones the pictures would take long to matter
        for p in model.parameters():
            p.mul_(5.0 if p.dim() > 1 else 1.0)
    names, draw = list(COLOURS), random.Random(0)
    pictures = [(name, quarter) for name in names for quarter in range(4)]
    pixels = torch.stack([resize(32)(square(*p), None) for p in pictures])
    tokenize, optimizer = WordPiece(WORDS).padded(12), torch.optim.AdamW(model.parameters(), lr=1e-3)
    learned = 0
    for _ in range(400):
        said = [draw.choice(names) for _ in pictures]
        tokens = tokenize([f"a {name} square" for name in said])
        mask = tokens["attention_mask"]
        fused = model.fuse(model.text(tokens["input_ids"], mask), mask, model.visual_encoder(pixels))
        loss = functional.cross_entropy(model.itm_head(fused[:, 0]), torch.tensor([int(name == of) for name, (of, _) in zip(said, pictures, strict=True)]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learned = learned + 1 if float(loss.detach()) < 0.05 else 0
        if learned == 10:
            break
    model.save(tmp_path / "w.safetensors")
    rows = []
    for name, quarter in pictures:
        square(name, quarter).save(tmp_path / f"{name}{quarter}.png")
        rows.append({"image": f"{name}{quarter}.png", "text": f"a {name} square", "boxes": QUARTERS, "box": QUARTERS[quarter]})
    (tmp_path / "list.json").write_text(json.dumps(rows))
    grounding.main([str(tmp_path / "w.safetensors"), "--list", str(tmp_path / "list.json"), "--images", str(tmp_path)])
    accuracy = float(capsys.readouterr().out.split()[-1])
    assert accuracy >= 0.5, f"{accuracy}, where chance is 0.25"
    grounding.main([str(tmp_path / "w.safetensors"), "--image", str(tmp_path / "red1.png"), "--text", "a red square", "--out", str(tmp_path / "map.png")])
    with Image.open(tmp_path / "map.png") as drawn:
        assert drawn.size == (32, 32) and drawn.tobytes() != square("red", 1).tobytes()
    with pytest.raises(SystemExit):
        grounding.main([str(tmp_path / "w.safetensors"), "--text", "a red square"])
