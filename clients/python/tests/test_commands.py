from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from crawl import WORDS, draw, score
from safetensors.torch import load_file
from train_once import new_model

from pairstream import Config
from pairstream.__main__ import main


def test_publish_and_read(new_log: Callable[..., Config], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = new_log(lanes=1)
    where = ["--brokers", config.brokers[0], "--namespace", config.namespace]
    pictures = draw(tmp_path)
    assert main(["publish", *where, pictures[0].ref.uri.removeprefix("file://"), "a tar is no picture", "--uri", "s3://x"]) == 0
    assert capsys.readouterr().out.startswith("published ")
    score(config, pictures, 1, counts=[3])
    assert main(["read", *where, "--topic", "scored"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["sequence"] for line in lines] == [0, 1, 2] and len(lines[0]["probabilities"]) == 12 and lines[0]["hardest_texts"][0] == [1, 2]
    assert main(["read", *where, "--topic", "scored", "--count", "1"]) == 0
    assert main(["read", *where, "--topic", "batches", "--timeout", "0.3"]) == 1
    assert "no record within 0.3 s" in capsys.readouterr().err


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {f"module.{name}": t for name, t in new_model().state_dict().items()}
    state |= {"module.visual_encoder_m.cls_token": torch.zeros(1), "module.image_queue": torch.zeros(2)}
    torch.save({"model": state}, tmp_path / "their.pth")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    command = ["convert", str(tmp_path / "their.pth"), str(tmp_path / "ours"), "--vocab", str(tmp_path / "vocab.txt"), "--heads", "4"]
    assert main(command) == 0
    assert set(load_file(tmp_path / "ours")) == set(new_model().state_dict())
    assert main([*command, "--image-size", "32"]) == 0
    assert load_file(tmp_path / "ours")["visual_encoder.pos_embed"].shape[1] == 17
    assert main([*command, "--image-size", "33"]) == 1
    (tmp_path / "vocab.txt").write_text("a")
    assert main(command) == 1
    assert "the vocabulary has 1 tokens, the model" in capsys.readouterr().err
