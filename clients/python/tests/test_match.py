from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from crawl import WORDS

from pairstream.__main__ import main
from pairstream.torch.match import BlipMatch

transformers = pytest.importorskip("transformers", reason="BLIP is Hugging Face's")
SIZE = 32


def small_blip(folder: Path, words: list[str]) -> transformers.BlipForImageTextRetrieval:
    """Save a random BLIP and its tokenizer."""
    text = {
        "vocab_size": len(words), "hidden_size": 32, "encoder_hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "projection_dim": 16, "max_position_embeddings": 32,
    }  # fmt: skip
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIZE, "patch_size": 8}
    torch.manual_seed(3)
    model = transformers.BlipForImageTextRetrieval(transformers.BlipConfig(text_config=text, vision_config=vision, image_text_hidden_size=16))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.15)  # so that probabilities differ
    model.eval().save_pretrained(folder)
    folder.joinpath("words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    transformers.BertTokenizer(str(folder / "words.txt")).save_pretrained(folder)
    return model


def test_export_match(tmp_path: Path) -> None:
    """The exported ITM head gives BLIP's probabilities for any number of pairs and tokens, and has its inputs' sizes inside."""
    words = [*WORDS, "[DEC]", "[ENC]"]
    model = small_blip(tmp_path, words)
    out = tmp_path / "con-d.pt"
    assert main(["export-match", str(tmp_path), str(out), "--text-tokens", "14"]) == 0
    extra = {"pairstream.config": "", "pairstream.vocab": ""}
    script = torch.jit.load(str(out), _extra_files=extra)
    texts = {name: text.decode() if isinstance(text, bytes) else text for name, text in extra.items()}
    assert json.loads(texts["pairstream.config"]) == {"image_size": SIZE, "text_tokens": 14, "caption_words": 0}
    assert texts["pairstream.vocab"].split("\n") == words
    for n, tokens in ((1, 5), (4, 12), (3, 14)):
        pixels, ids = torch.randn(n, 3, SIZE, SIZE), torch.randint(5, len(WORDS), (n, tokens))
        mask = torch.ones_like(ids)
        mask[:, tokens - 1] = 0
        ids[:, 0] = 2
        with torch.no_grad():
            got = script.match(pixels, ids, mask)
            ids[:, 0] = len(words) - 1
            want = model(input_ids=ids, pixel_values=pixels, attention_mask=mask, use_itm_head=True)[0].softmax(1)[:, 1]
        assert torch.allclose(got, want, atol=1e-6) and got.shape == (n,)
        assert n == 1 or got.std() > 1e-3
    with torch.no_grad():
        assert torch.equal(BlipMatch(model, len(words) - 1)(pixels, ids, mask), got)


def test_export_match_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_blip(tmp_path, WORDS)
    assert main(["export-match", str(tmp_path), str(tmp_path / "con-d.pt")]) == 1
    assert "no [ENC], want BLIP's" in capsys.readouterr().err
    assert not (tmp_path / "con-d.pt").exists()
