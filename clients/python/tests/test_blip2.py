"""examples/blip2.py: the Q-Former is transformers', begins as BERT, and contrasts with the pairs of all ranks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from crawl import WORDS, draw, score
from test_trainer import Job, progress, weights_of
from torch import nn
from train_once import new_trainer

from pairstream import CheckpointError, Config
from pairstream.torch import losses

transformers = pytest.importorskip("transformers", reason="BLIP-2 is Hugging Face's")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


@pytest.fixture
def module() -> Any:
    torch.manual_seed(0)
    return importlib.import_module("blip2")


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    ids, mask = torch.randint(5, len(WORDS), (3, 6)), torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 3 + [0] * 3])
    return ids, mask, torch.rand(3, 3, 32, 32)


def copied(to: nn.Module, state: dict[str, torch.Tensor]) -> None:
    missing = [name for name in to.load_state_dict(state, strict=False).missing_keys if "position_ids" not in name and "inv_freq" not in name]
    assert not missing, missing


def test_the_q_former_is_transformers(module: Any, tmp_path: Path) -> None:
    """InstructBLIP's has texts beside queries in every version, and that of Blip2ForImageTextRetrieval in newer ones."""
    model = module.QFormer.at_random(len(WORDS)).eval()
    ids, mask, pixels = inputs()
    config = transformers.InstructBlipQFormerConfig(**{k: v for k, v in model.config.qformer_config.to_dict().items() if k not in ("model_type", "use_qformer_text_input")})
    theirs = transformers.InstructBlipQFormerModel(config).eval()
    state = {name.removeprefix("qformer."): t for name, t in model.state_dict().items() if name.startswith(("qformer.", "embeddings."))}
    copied(theirs, {name.replace("layernorm.", "embeddings.layernorm.") if name.startswith("layernorm.") else name: t for name, t in state.items()})
    with torch.no_grad():
        states = model.vision_model(pixel_values=pixels, return_dict=True).last_hidden_state
        queries = model.query_tokens.expand(3, -1, -1)
        both = torch.cat([torch.ones(3, 4, dtype=mask.dtype), mask], 1)
        ours = model.joint(states, ids, mask, causal=False)
        want = theirs(input_ids=ids, attention_mask=both, query_embeds=queries, encoder_hidden_states=states).last_hidden_state
        torch.testing.assert_close(ours, want, rtol=0, atol=1e-5)
        torch.testing.assert_close(model.former(model.embed(ids), mask, None, 0), theirs(input_ids=ids, attention_mask=mask).last_hidden_state, rtol=0, atol=1e-5)
        # A caption is told from the image and from earlier words alone.
        later = ids.clone()
        later[:, 3:] = 5
        told, other = (model.joint(states, x, mask, causal=True) for x in (ids, later))
        torch.testing.assert_close(told[:, : 4 + 3], other[:, : 4 + 3])
        assert not torch.allclose(told[:, 4 + 3 :], other[:, 4 + 3 :])
    model.save(tmp_path)
    again = module.QFormer.load(str(tmp_path), bos=2)
    assert all(torch.equal(t, again.state_dict()[name]) for name, t in model.state_dict().items())
    if (kind := getattr(transformers, "Blip2ForImageTextRetrieval", None)) is not None:
        theirs = kind.from_pretrained(tmp_path).eval()
        with torch.no_grad():
            logits = theirs(pixel_values=pixels, input_ids=ids, attention_mask=mask, use_image_text_matching_head=True).logits_per_image
            torch.testing.assert_close(logits, model.itm_head(ours[:, :4]).mean(1), rtol=0, atol=1e-5)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no .*, nor \d+ others: want the safetensors of a Blip2ForImageTextRetrieval"):
        module.QFormer.load(str(tmp_path), bos=2)


def test_it_begins_as_bert(module: Any) -> None:
    model = module.QFormer.at_random(len(WORDS) + 1).eval()
    config = transformers.BertConfig(vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=32)
    bert = transformers.BertModel(config).eval()
    with torch.no_grad():
        bert.embeddings.token_type_embeddings.weight.zero_()  # the Q-Former has none
    model.begin(bert)
    ids, mask, _ = inputs()
    with torch.no_grad():
        want = bert(input_ids=ids, attention_mask=mask).last_hidden_state
        torch.testing.assert_close(model.former(model.embed(ids), mask, None, 0), want, rtol=0, atol=1e-5)
        # Queries that are no image's are fed forward as texts.
        torch.testing.assert_close(model.former(model.embed(ids), mask, None, ids.shape[1]), want, rtol=0, atol=1e-5)
    deeper = transformers.BertModel(transformers.BertConfig(**{**config.to_dict(), "num_hidden_layers": 3}))
    with pytest.raises(CheckpointError, match="which the Q-Former has not"):
        model.begin(deeper)


def test_ambiguous_pairs_are_left_out(module: Any) -> None:
    picks = losses.Picks(torch.tensor([1, 0]), torch.tensor([2, 2]), torch.tensor([losses.AMBIGUOUS, losses.NEGATIVE]))
    assert module.without_ambiguous(picks).second.tolist() == [-1, 2]


def test_stage_1_is_planned_as_in_g7(module: Any) -> None:
    recipe = module.planned({"RECIPE": "mafa", "PAIRS": "5000000", "LANES": ""})
    assert recipe.step_batches * 48 == 384 and recipe.alpha == 0.2 and not recipe.ecm_mlm
    epoch = 5_000_000 // 48 // 8
    assert recipe.lr_total_steps == 10 * epoch and recipe.lr_warmup_steps == 2000
    assert recipe.rate(0) == 1e-6 and recipe.rate(2000) == 1e-4 and recipe.rate(10 * epoch) == 1e-5 and recipe.beta2 == 0.98
    assert module.planned({"LR_TOTAL_STEPS": "9000", "ITC_ALPHA": "0.4"}).lr_total_steps == 9000
    assert module.planned({"PAIRS": "1"}).lr_total_steps == 10


def test_itc_has_the_pairs_of_all_ranks(new_log: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Two ranks by gloo, of which one has more mini-batches: the loss is that of one process that is given the other's keys."""
    monkeypatch.setenv("MODEL", "blip2")
    config = new_log(lanes=2)
    score(config, draw(tmp_path), 2, counts=[3, 1])
    assert Job(config, tmp_path / "two", world=2, every=9).finish()[0] == 3
    reported = progress(config)[0].values

    taken: list[Any] = []
    trainer = new_trainer(config, tmp_path / "one", publish=False)
    for batch in trainer.batches:
        taken.append(batch)
    first, other = (next(b for b in taken if b.lane == lane) for lane in (0, 1))
    model = trainer.model
    given = {}
    monkeypatch.setattr(model, "keys", lambda batch, queries, text: given.setdefault("keys", (queries.detach(), text.detach(), None)))
    model(other)
    others = given["keys"]

    def keys(batch: Any, queries: torch.Tensor, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        same = (batch.image_ids[:, None] == other.image_ids[None]).all(2)
        return torch.cat([queries.detach(), others[0]]), torch.cat([text.detach(), others[1]]), same

    monkeypatch.setattr(model, "keys", keys)
    with torch.no_grad():
        values = model(first).values
    assert values["loss_itc"] == pytest.approx(reported["loss_itc"], abs=1e-5)
    monkeypatch.undo()
    with torch.no_grad():
        assert abs(model(first).values["loss_itc"] - reported["loss_itc"]) > 0.1, "alone it has half as many keys"
    state = weights_of(tmp_path / "two")
    assert any(not torch.equal(t, state[name]) for name, t in model.state_dict().items())
