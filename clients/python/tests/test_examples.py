from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from crawl import WORDS, draw, score
from torch import nn

from pairstream import Config, Reader
from pairstream.records import FeatureBlock
from pairstream.topics import FEATURES
from pairstream.torch import Images, Recipe, ScoredBatches, Trainer, resize
from pairstream.torch.wordpiece import WordPiece

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
transformers = pytest.importorskip("transformers", reason="the examples are built with transformers")
SIZE = 32


def example(name: str, kind: str) -> tuple[Any, nn.Module]:
    module = importlib.import_module(name)
    torch.manual_seed(0)
    return module, getattr(module, kind).at_random(len(WORDS), SIZE)


@pytest.mark.parametrize(("name", "kind", "parts"), [
    ("clip", "CLIP", {"itc"}), ("blip", "BLIP", {"itc", "itm", "lm"}), ("blip2", "QFormer", {"itc", "itm", "itg"}),
])  # fmt: skip
def test_examples_train(new_log: Callable[..., Config], tmp_path: Path, name: str, kind: str, parts: set[str]) -> None:
    """Every example learns from a handful of batches, reaches all of its parameters, and publishes unit features."""
    _, model = example(name, kind)
    if name == "blip":
        model.recipe = Recipe(soft_from_epoch=1)  # sharp targets: a dozen steps are too few for smoothed ones
    config = new_log(lanes=1)
    score(config, draw(tmp_path), 1, counts=[12])
    batches = ScoredBatches(
        config, transform=resize(SIZE), tokenize=WordPiece(WORDS).padded(12), images=Images(roots=[]), timeout=30, rank=0, world=1,
    )  # fmt: skip
    seen: list[dict[str, float]] = []
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    trainer = Trainer(model, optimizer, batches, tmp_path / "c", every=0, observe=lambda step, output, batch: seen.append(output.values), timeout=30)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    assert trainer.run() == 12
    assert {k for k in seen[0] if k.startswith("loss_")} == {f"loss_{p}" for p in parts}
    still = [n for n, p in model.named_parameters() if p.requires_grad and torch.equal(p, before[n])]
    # The bias of keys has no effect on a softmax, and that of queries none while the keys' is 0.
    assert not [n for n in still if not n.endswith(("k_proj.bias", "q_proj.bias", "key.bias", "query.bias")) and "post_layernorm" not in n], f"no gradient reaches {still}"
    for part in parts:
        assert sum(v[f"loss_{part}"] for v in seen[-4:]) < sum(v[f"loss_{part}"] for v in seen[:4]) * 1.2
    assert sum(sum(v[f"loss_{p}"] for p in parts) for v in seen[-4:]) < sum(sum(v[f"loss_{p}"] for p in parts) for v in seen[:4])
    with Reader(config, FEATURES, 0, timeout=10) as reader:
        blocks = [reader.next(0).record() for _ in range(12)]
    assert all(isinstance(b, FeatureBlock) and b.dim == 16 for b in blocks)
