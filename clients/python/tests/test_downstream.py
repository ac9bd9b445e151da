"""examples/downstream.py learns VQA, NLVR2 with its text assignment, and SNLI-VE on pictures of three colours."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from crawl import WORDS
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
COLOURS = {"red": (200, 40, 30), "green": (30, 190, 50), "blue": (40, 50, 210)}


def _lists(folder: Path) -> dict[str, list[dict[str, Any]]]:
    names = list(COLOURS)
    for name, colour in COLOURS.items():
        for i in range(4):
            Image.new("RGB", (40, 36), tuple(max(0, c - 12 * i) for c in colour)).save(folder / f"{name}{i}.png")
    pairs = [(n, i) for n in names for i in range(4)]
    ve = [{"image": f"{n}{i}.png", "sentence": f"a {other} square", "label": "entailment" if n == other else "contradiction"} for n, i in pairs for other in names]
    nlvr = [
        {"images": [f"{a}{i}.png", f"{b}{3 - i}.png"], "sentence": "a red square", "label": str("red" in (a, b))} for a in names for b in names for i in range(4)
    ]
    return {
        "vqa": [{"image": f"{n}{i}.png", "question": "a square of", "answer": [n, f"dark {n}"] if i == 3 else n} for n, i in pairs],
        "ve": ve, "nlvr2": nlvr, "assign": [{"image": f"{n}{i}.png", "caption": [f"a {n} square"]} for n, i in pairs],
    }  # fmt: skip


@pytest.mark.parametrize(("task", "epochs", "least"), [("vqa", 40, 0.9), ("ve", 40, 0.9), ("nlvr2", 12, 0.9)])
def test_downstream(task: str, epochs: int, least: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import albef
    import downstream

    torch.manual_seed(0)
    lists = _lists(tmp_path)
    for name, rows in lists.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    model = albef.ALBEF(albef.Shape(vocab_size=len(WORDS)), vocab=WORDS)
    with torch.no_grad():  # as large as those of a trained model: from small ones the pictures would take long to matter
        for p in model.parameters():
            p.mul_(5.0 if p.dim() > 1 else 1.0)
    model.save(tmp_path / "w.safetensors")
    common = ["--images", str(tmp_path), "--lr", "1e-3", "--batch", "12"]
    more: list[str] = []
    if task == "nlvr2":
        more = ["--start", str(tmp_path / "assigned.pt")]
        downstream.main(["assign", str(tmp_path / "w.safetensors"), str(tmp_path / "assign.json"), *common, "--out", more[1], "--epochs", "30"])
        losses = [float(x) for x in capsys.readouterr().out.split()[3:]]
        assert min(losses[-5:]) < losses[0]
    downstream.main([task, str(tmp_path / "w.safetensors"), str(tmp_path / f"{task}.json"), *common, *more, "--epochs", str(epochs), "--test", str(tmp_path / f"{task}.json")])
    printed = capsys.readouterr().out.split()
    assert float(printed[-1]) >= least, printed


def test_the_second_image_shares_keys_and_values_with_the_first(tmp_path: Path) -> None:
    import albef
    import downstream

    model = downstream.Downstream(albef.ALBEF(albef.Shape(vocab_size=len(WORDS)), vocab=WORDS), "nlvr2", tmp_path)
    for layer, twin in zip(model.base.text_encoder.bert.encoder.layer[2:], model.twins, strict=True):
        assert twin.crossattention.self.key is layer.crossattention.self.key and twin.crossattention.self.query is not layer.crossattention.self.query
