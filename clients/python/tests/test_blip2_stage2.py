"""examples/blip2_stage2.py: a tiny BLIP-2 learns to tell captions through a frozen OPT, from a plan."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from crawl import WORDS, draw
from test_plans import write

transformers = pytest.importorskip("transformers", reason="BLIP-2 is Hugging Face's")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def _save(folder: Path) -> None:
    """Save a random BLIP-2 with an OPT decoder, and a tokenizer."""
    words = folder / "words.txt"
    folder.mkdir()
    words.write_text("\n".join([*WORDS, "<s>", "</s>"]) + "\n")
    tokenizer = transformers.BertTokenizerFast(str(words), bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    text = {
        "model_type": "opt", "vocab_size": len(WORDS) + 2, "hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 64, "bos_token_id": len(WORDS), "eos_token_id": len(WORDS) + 1, "pad_token_id": 0,
    }  # fmt: skip
    config = transformers.Blip2Config(
        vision_config=sizes | {"image_size": 32, "patch_size": 8}, qformer_config=sizes | {"encoder_hidden_size": 32, "cross_attention_frequency": 1},
        text_config=text, num_query_tokens=4,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Blip2ForConditionalGeneration(config)
    with torch.no_grad():  # small random weights would hardly let what stands before a text change it
        for p in model.language_model.parameters():
            p.mul_(8.0 if p.dim() > 1 else 1.0)
    model.save_pretrained(folder)


def test_stage_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUCKET_ROOTS", raising=False)
    module = importlib.import_module("blip2_stage2")
    _save(tmp_path / "model")
    pictures = draw(tmp_path)
    write(tmp_path / "plan", pictures)
    # From another stage 1: its queries are taken.
    other = transformers.Blip2ForConditionalGeneration.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        other.query_tokens.normal_()
    other.save_pretrained(tmp_path / "stage1")
    common = [str(tmp_path / "plan"), "--device", "cpu", "--lr", "5e-3", "--warmup", "2", "--step-pairs", "1"]
    module.main([*common, "--model", str(tmp_path / "model"), "--stage1", str(tmp_path / "stage1"), "--out", str(tmp_path / "stage2")])
    first, last = capsys.readouterr().out.split("loss ")[1].split(" to ")
    assert float(last) < float(first) * 0.8
    before, after = (transformers.Blip2ForConditionalGeneration.from_pretrained(tmp_path / name) for name in ("model", "stage2"))
    same = {name: torch.equal(p, dict(after.named_parameters())[name]) for name, p in before.named_parameters()}
    assert all(equal for name, equal in same.items() if name.startswith(("language_model", "vision_model")))
    assert not same["query_tokens"] and not same["language_projection.weight"]
    # Captioning trains the image encoder as well, behind a prompt, and tells.
    module.main([*common, "--model", str(tmp_path / "stage2"), "--prompt", "a square", "--train-images", "--step-pairs", "12", "--out", str(tmp_path / "captioner")])
    assert capsys.readouterr().out.startswith("7 steps")
    trained = transformers.Blip2ForConditionalGeneration.from_pretrained(tmp_path / "captioner")
    assert not torch.equal(trained.vision_model.embeddings.position_embedding, after.vision_model.embeddings.position_embedding)
    ref = pictures[0].ref
    (tmp_path / "one.png").write_bytes((tmp_path / "crawl.tar").read_bytes()[ref.offset : ref.offset + ref.size])
    module.main([*common, "--model", str(tmp_path / "captioner"), "--prompt", "a square", "--tell", str(tmp_path / "one.png")])
    assert set(capsys.readouterr().out.split()) & set(WORDS)


def test_steps_have_the_pairs_of_the_paper() -> None:
    of_step = importlib.import_module("blip2_stage2").of_step
    assert (of_step([64] * 99), of_step([64] * 99, images=True), of_step([96] * 99), of_step([6] * 14), of_step([600] * 9)) == (8, 2, 5, 14, 1)


def test_the_rate_rises_and_falls() -> None:
    rate = importlib.import_module("blip2_stage2").rate
    assert rate(0, 10_000) == 1e-6 and rate(2000, 10_000) == pytest.approx(1e-4) and rate(10_000, 10_000) == pytest.approx(1e-5)
    assert rate(1000, 10_000) == pytest.approx(5.05e-5) and rate(6000, 10_000) == pytest.approx(5.5e-5) and rate(20_000, 10_000) == pytest.approx(1e-5)
