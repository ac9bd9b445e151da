"""Images, captions and losses of a recipe, on the vectors that the Go programs pass."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT, VECTORS
from numpy.typing import NDArray
from PIL import Image
from test_losses import PRECISIONS, albef, batch_of, check_gradients, model_of, no_partners
from vectors import Vectors, close, same, vectors

from pairstream.errors import SettingError
from pairstream.rng import generator
from pairstream.torch import Recipe, augment, losses, pre_caption, tcl, variation
from pairstream.torch.wordpiece import WordPiece


def picture(v: Vectors, name: str) -> Image.Image:
    return Image.fromarray(v[name].numpy())


def compare(what: str, got: Image.Image, want: torch.Tensor, allowed: int, exact: float) -> None:
    """Check that no value is off by more than allowed, and that enough of them are exact."""
    pixels: NDArray[np.uint8] = want.numpy()
    off = np.abs(np.asarray(got).astype(int) - pixels)
    assert off.shape == pixels.shape, what
    assert off.max() <= allowed and (off == 0).mean() >= exact, f"{what}: off by {off.max()}, {(off == 0).mean():.4f} exact"


def tolerance(names: list[str]) -> tuple[int, float]:
    """Shears and Rotate interpolate."""
    return (2, 0.0) if {"ShearX", "ShearY", "Rotate"} & set(names) else (1, 0.995)


def test_operations_of_randaugment_golden() -> None:
    v = vectors("randaugment")
    seen = set()
    for name in (n for n in v.tensors if n.startswith("out.") and n.count(".") == 4):
        _, operation, level, sign, image = name.split(".")
        got = variation.operate(picture(v, f"in.image.{image}"), operation, int(level), sign == "neg")
        compare(name, got, v[name], *tolerance([operation]))
        seen.add(operation)
    assert seen == set(variation.OPERATIONS)


def test_calls_of_randaugment_golden() -> None:
    v = vectors("randaugment")
    for c, call in enumerate(v.config["calls"]):
        (_, *drawn), *rest = call["draws"]
        got = variation.perform(picture(v, f"in.image.{call['image']}"), drawn, 7, iter_of(rest))
        compare(f"call {c}", got, v[f"out.call.{c}"], *tolerance(drawn))
        assert not rest


def iter_of(rest: list[float]) -> Any:
    return lambda: rest.pop(0)


def repository_vectors(name: str) -> Vectors:
    return Vectors(ROOT / "testdata" / f"{name}.safetensors")


def test_distortions_are_tcls() -> None:
    v = repository_vectors("tcl_augment")
    for i in range(4):
        for o, (name, value) in enumerate(v.config["operations"]):
            compare(f"{name} {value}", variation.distort(picture(v, f"in.image.{i}"), [(name, value)]), v[f"out.{o}.{i}"], 0, 1)
    for c, call in enumerate(v.config["calls"]):
        compare(f"call {c}", variation.distort(picture(v, f"in.image.{call['image']}"), call["steps"]), v[f"out.call.{c}"], 0, 1)


def test_variations_are_those_of_the_built_in_trainer() -> None:
    """The vectors are written by internal/content/imaging: its draws, with its rounding."""
    v, source = repository_vectors("augment_draws"), repository_vectors("tcl_augment")
    c = v.config
    transform = augment(c["size"], c["min_scale"], c["flip"], c["color"], distort=c["distort"], ops=c["ops"], level=c["level"])
    for key in range(c["draws"]):
        got = transform._vary(picture(source, "in.image.0"), generator(c["seed"], "image", key))
        off, other = (np.median(np.abs(np.asarray(got).astype(int) - v[f"out.{k}"].numpy())) for k in (key, (key + 1) % c["draws"]))
        assert off <= 2 and other >= 8, f"draw {key}: off by {off} from its picture, and by {other} from another"


def test_captions_golden() -> None:
    cases = json.loads((VECTORS / "pre_caption.json").read_text(encoding="utf-8"))
    assert len(cases) > 20
    for case in cases:
        assert (pre_caption(case["text"], 30), pre_caption(case["text"], 50)) == (case["caption_30"], case["caption_50"]), case["text"]


def test_a_recipe_tokenizes_as_its_weights_say() -> None:
    words = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", ",", "black"])
    recipe = Recipe.of("albef", {})
    assert recipe.captions(words, 9)(["A black-dog, a dog"])["input_ids"].tolist() == [[2, 5, 8, 6, 5, 6, 3]]
    assert recipe.captions(words, 9, 2)(["A black-dog, a dog"])["input_ids"].tolist() == [[2, 5, 8, 3]]
    assert recipe.captions(words, 9, 0)(["a dog, a dog"])["input_ids"].tolist() == [[2, 5, 6, 7, 5, 6, 3]]


def test_recipes() -> None:
    assert Recipe.of("mafa", {}) == Recipe() == Recipe.of(environ={})
    tcl_, gpns = Recipe.of("tcl", {}), Recipe.of(environ={"RECIPE": "gpn-s"})
    assert (tcl_.loss, tcl_.distort, tcl_.momentum, tcl_.momentum_queue, tcl_.mlm_distill, tcl_.negatives, tcl_.mask_probability) == (
        "triple", True, True, 65536, 0.4, "multinomial", 0.15,
    )  # fmt: skip
    assert (gpns.uni, gpns.loss, gpns.distort, gpns.ramp_steps) == (1, "softmax", False, 39062)
    assert Recipe.of("gpn-s", {"STEP_BATCHES": "4"}).ramp_steps == 39062
    assert Recipe.of("albef", {"LANES": "1", "GROUP_SIZE": "6400", "EPOCHS": "3"}).ramp_steps == 12
    short = Recipe.of("albef", {"PAIRS": "6400", "EPOCHS": "3"})  # TestRecipePlansInPythonAsInGo compares with Go
    assert (short.ramp_steps, short.lr_total_steps, short.lr_warmup_steps) == (12, 36, 3)
    assert short.factor(3) == 1 and short.factor(36) == pytest.approx(0.1) and short.accumulate(4) == 2
    assert Recipe.of("tcl", {"AUGMENT_DISTORT": "false", "ITC_ALPHA": "0.3", "ITC_ALPHA_RAMP_STEPS": "7"}).ramp_steps == 7
    grit = Recipe.of("grit-vlp", {})
    assert grit.softening(0) == losses.Consistency(0.2) and not (grit.ecm_itc or grit.ecm_itm or grit.ecm_mlm)
    assert tcl_.ramp(0.4, 0) == 0 and tcl_.ramp(0.4, 39062) == 0.4
    with pytest.raises(SettingError, match="ITC_TARGETS is distilled, and this model has no momentum model"):
        tcl_.softening(0)
    for variable, value, words in (
        ("PAIRS", "-1", "PAIRS is '-1', want a whole number of at least 0"), ("LANES", "0", "LANES is '0', want a whole number of at least 1"),
        ("BATCH_SIZE", "1e2", "BATCH_SIZE is '1e2'"), ("STEP_BATCHES", "0", "STEP_BATCHES is '0'"), ("LR_SCHEDULE", "stream", "LR_SCHEDULE is 'stream', want cosine"),
        ("LR", "1e-6", "LR_MIN is 1e-05"), ("LR_TOTAL_STEPS", "9", "LR_TOTAL_STEPS is 9, want more than LR_WARMUP_STEPS=1000"),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=words):
            Recipe.of("albef", {variable: value})
    with pytest.raises(SettingError, match="STEP_BATCHES is 4, want a multiple of the 3 ranks"):
        Recipe().accumulate(3)
    with pytest.raises(SettingError, match="RECIPE is 'clip', want albef"):
        Recipe.of("clip", {})
    with pytest.raises(SettingError, match="ITC_ALPHA is 'x', want float"):
        Recipe.of("mafa", {"ITC_ALPHA": "x"})
    with pytest.raises(SettingError, match="ITC_LOSS is 'x', want softmax, triple or sigmoid"):
        Recipe.of("mafa", {"ITC_LOSS": "x"})
    with pytest.raises(SettingError, match="ITC_LOSS is sigmoid with ITC_TARGETS=smoothed, want onehot"):
        Recipe.of("mafa", {"ITC_LOSS": "sigmoid"})
    with pytest.raises(SettingError, match="MOMENTUM_DECAY is 'x', want float"):
        Recipe.of("mafa", {"MOMENTUM_DECAY": "x"})
    with pytest.raises(SettingError, match="ECM_LOSSES is 'itc,uni', want itc, itm and mlm, comma separated, or none"):
        Recipe.of("mafa", {"ECM_LOSSES": "itc,uni"})
    for adamw in ("0.9,0.999", "0.9,0.999,1e-8,1", "a,b,c"):
        with pytest.raises(SettingError, match=f"ADAMW is '{adamw}', want three numbers"):
            Recipe.of("mafa", {"ADAMW": adamw})
    for ops in ("2", "2,7,1", "a,7"):
        with pytest.raises(SettingError, match=f"AUGMENT_OPS is '{ops}', want two whole numbers"):
            Recipe.of("mafa", {"AUGMENT_OPS": ops})
    assert [(r.ops, r.level) for r in (Recipe.of("mafa", {"AUGMENT_OPS": ops}) for ops in ("3, 10", "0"))] == [(3, 10), (0, 0)]
    ours = Recipe.of("mafa", {"ADAMW": "0.8, 0.98, 1e-6"})
    assert (ours.beta1, ours.beta2, ours.eps) == (0.8, 0.98, 1e-6)
    some = Recipe.of("mafa", {"ECM_LOSSES": "mlm, itc", "MOMENTUM_DECAY": "0.9"})
    assert (some.ecm_itc, some.ecm_itm, some.ecm_mlm, some.momentum, some.momentum_decay) == (True, False, True, True, 0.9)


@pytest.mark.parametrize("at", ["a0", "a04"])
@pytest.mark.parametrize("file", ["tcl_step", "albef_mlm_distill"])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_momentum_steps_golden(dtype: torch.dtype, file: str, at: str) -> None:
    """A whole step of ALBEF and of TCL: losses, gradients, the average and the queue."""
    v = vectors(file)
    exact, want = dtype == torch.float64, "out64." if dtype == torch.float64 else "out."
    alpha, size, n = float(v[f"in.{at}.alpha"]), v["in.image_queue"].shape[1], len(v["in.input_ids"])
    of_tcl = file == "tcl_step"
    recipe = Recipe(
        targets="distilled", alpha=alpha, mlm_distill=alpha, loss="triple" if of_tcl else "softmax", momentum=True, momentum_decay=float(v["in.momentum"]), momentum_queue=size,
        ecm_itc=False, ecm_itm=False, ecm_mlm=False, dropout=0,
    )  # fmt: skip
    model = model_of(v, "w.", recipe, dtype)
    m = model.momentum
    assert m is not None
    for name, tensor in m.average.state_dict().items():
        part, dot, rest = name.partition(".")
        if f"w.{part}_m{dot}{rest}" in v:
            tensor.copy_(v[f"w.{part}_m{dot}{rest}"])
    pointer = int(v["in.queue_ptr"])
    order = [(pointer - (block + 1) * n) % size + i for block in range(size // n) for i in range(n)]
    m.image.copy_(v["in.image_queue"].t()[order])
    m.text.copy_(v["in.text_queue"].t()[order])
    m.ids.fill_(-1)
    m.counts[0] = size
    batch = batch_of(v, dtype)
    if of_tcl:
        batch.second = v["in.image_aug"].to(dtype)
    batch.image_ids = torch.arange(2 * n).reshape(n, 2)
    out = model(batch, (v["in.mlm_input_ids"], v["in.mlm_labels"]))
    for name, key in (("loss_itc", "loss_ita"), ("loss_itm", "loss_itm"), ("loss_mlm", "loss_mlm")):
        close(name, torch.tensor(out.values[name]), v[f"{want}{at}.{key}"], 1e-6 if exact else 2e-6)
    close("total", out.loss, v[f"{want}{at}.loss_total"], 1e-10 if exact else 2e-6)
    out.loss.backward()
    check_gradients(v, model, dtype, f"{at}.")
    model.end_step()
    after = [(int(v["out.queue_ptr"]) - (block + 1) * n) % size + i for block in range(size // n) for i in range(n)]
    close("image queue", m.image, v[want + "image_queue"].t()[after], 1e-10 if exact else 1e-5)
    close("text queue", m.text, v[want + "text_queue"].t()[after], 1e-10 if exact else 1e-5)
    moved, state = v.family(want + "w."), m.average.state_dict()
    for name, tensor in moved.items():
        ours = name.replace("_m.", ".", 1)
        if ours in state:
            close(ours, state[ours], tensor, 1e-10 if exact else 1e-5, 1e-7)
    assert moved


def test_local_features_golden() -> None:
    v = vectors("tcl_step")
    recipe = Recipe(dropout=0, momentum=True)
    model = model_of(v, "w.", recipe, torch.float64)
    patches = model.locals(v["out64.image_embeds_m"], linear(v, "vision_proj_m", model.vision_proj, "image"))
    close("regions", tcl.regions(patches), v["out64.image_feat_m_local"], 1e-9)


def linear(v: Vectors, name: str, like: torch.nn.Linear, side: str) -> torch.nn.Linear:
    out = torch.nn.Linear(like.in_features, like.out_features, dtype=torch.float64)
    key = f"out64.w.{name}" if f"out64.w.{name}.weight" in v else f"out.w.{name}"
    out.load_state_dict({part: v[f"{key}.{part}"].double() for part in ("weight", "bias")})
    return out


# Drawn with trainer.MultinomialNegatives for batches of seed 1, lane 0, group 0, epoch 0.
DRAWN = {0: [(2, 3), (2, 3), (1, 0), (2, 0)], 1: [(3, 2), (3, 2), (1, 0), (2, 1)], 4: [(3, 2), (2, 3), (0, 3), (2, 0)], 5: [(2, 3), (2, 3), (3, 0), (2, 1)]}


def test_negatives_are_drawn() -> None:
    sim = torch.tensor([[9.0, 2, 1, 0], [0, 9, 0, 0], [5, 5, 9, 5], [1, 2, 3, 9]])
    none = torch.zeros(4, 0, dtype=torch.int64)
    shown = no_partners(4)
    shown[1, 0] = shown[0, 1] = True

    def run(kind: str, key: int) -> losses.Picks:
        return losses.mine(sim, none, none.float(), shown, negatives=kind, draw=generator(1, "itm negatives", 0, 0, 0, key))

    same("again", run("multinomial", 0).hardest, run("multinomial", 0).hardest)
    many = torch.stack([run("multinomial", k).hardest for k in range(400)])
    assert not (many[:, 0] == 0).any() and not (many[:, 0] == 1).any(), "the pair itself, or a known positive"
    assert abs((many[:, 0] == 2).double().mean() - torch.softmax(torch.tensor([1.0, 0.0]), 0)[0]) < 0.08
    uniform = torch.stack([run("random", k).hardest for k in range(400)])
    assert abs((uniform[:, 3] == 0).double().mean() - 1 / 3) < 0.08
    for key, rows in DRAWN.items():
        picks = run("multinomial", key)
        assert list(zip(picks.hardest.tolist(), picks.second.tolist(), strict=True)) == rows, key
    with pytest.raises(ValueError, match="want hardest, or multinomial or random with a generator"):
        losses.mine(sim, none, none.float(), shown, negatives="multinomial")


def test_the_average_moves_once_for_a_step() -> None:
    model = albef.ALBEF(albef.Shape(), Recipe(dropout=0, momentum=True, momentum_queue=6, momentum_decay=0.5))
    m = model.momentum
    assert m is not None
    before = m.average.vision_proj.bias.clone()
    with torch.no_grad():
        model.vision_proj.bias += 1
    for batch in range(4):
        m.follow(model)
        m.push(torch.full((4, 32), float(batch)), torch.zeros(4, 32), torch.full((4, 2), batch))
        assert torch.allclose(m.average.vision_proj.bias - before, torch.tensor(0.5 if batch < 2 else 0.75))
        assert m.counts.tolist() == ([0, 0] if batch < 2 else [6, 1])
        if batch % 2:
            model.end_step()
    assert m.counts.tolist() == [6, 2]
    assert m.image[:, 0].tolist() == [3, 3, 3, 3, 2, 2] and m.same(torch.tensor([[2, 2]])).tolist() == [[False] * 4 + [True] * 2]
    model.end_step()  # of a rank that has no batch left
    assert torch.allclose(m.average.vision_proj.bias - before, torch.tensor(0.875)) and m.counts.tolist() == [6, 3]
    assert not any(p.requires_grad for p in m.parameters())
    assert sum(len(g["params"]) for g in model.decay_groups()) == len(model.own_state())  # type: ignore[arg-type]


def test_the_threshold_of_a_record_comes_before_the_recipes() -> None:
    def bounds(said: float, **values: float) -> dict[str, float]:
        return Recipe(**values).bounds(SimpleNamespace(high=said))  # type: ignore[arg-type]

    assert bounds(0) == {"high": 0.8, "low": 0.5}
    assert bounds(0.95) == {"high": 0.95, "low": 0.5}
    assert bounds(0.3) == {"high": 0.3, "low": 0.3}  # nothing is ambiguous below it
    assert bounds(0, high=0.9, low=0.7) == {"high": 0.9, "low": 0.7}
