from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from conftest import VECTORS
from torch import Tensor
from vectors import Vectors, close, same, vectors

from pairstream.records import GroupID
from pairstream.rng import generator
from pairstream.torch import Batch, losses
from pairstream.torch.losses import CONNECTION, Consistency, Distilled, OneHot, Picks, Smoothed, Softening, Targets

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import albef

torch.set_num_threads(1)


def no_partners(n: int) -> Tensor:
    return torch.zeros(n, n, dtype=torch.bool)


def itc_softening(v: Vectors, case: str) -> Softening:
    kind, _, share = case.partition("_a")
    if kind == "onehot":
        return OneHot()
    if kind == "cons":
        return Consistency(float(v["cons.lambda"]))
    if kind == "mdnq":
        return Distilled(v[f"{case}.sim_i2t_m"], v[f"{case}.sim_t2i_m"], float(share))
    return Smoothed(float(share))


CASES = ["onehot", "cons", "sitc_a0.1", "sitc_a0.3", "sitc_a0.5", "sitc_a0.7", "ecm_a0", "sitc_ecm_a0.5", "mdnq_a0.4"]


def ecm_picks(v: Vectors, hardest: str, fresh: str) -> Picks:
    h, new = v[hardest], v[fresh].bool()
    return Picks(h, torch.full_like(h, -1), torch.where(new, torch.full_like(h, CONNECTION), torch.zeros_like(h)))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_itc_golden(case: str, dtype: torch.dtype) -> None:
    v = vectors("itc_losses")
    prefix = f"{case}." if f"{case}.sim_i2t" in v else "in."
    i2t, t2i = (v[prefix + name].to(dtype).clone().requires_grad_() for name in ("sim_i2t", "sim_t2i"))
    n = len(i2t)
    picks = (None, None)
    if "ecm" in case:
        picks = (ecm_picks(v, "ecm.hard_text_for_image", "ecm.new_pos_i2t"), ecm_picks(v, "ecm.hard_image_for_text", "ecm.new_pos_t2i"))  # type: ignore[assignment]
    targets = [losses.hard_targets(no_partners(n), p) for p in picks]
    softening = itc_softening(v, case)
    loss = losses.itc(i2t, t2i, *targets, softening)
    loss.backward()
    exact = dtype == torch.float64
    close("loss", loss, v[f"{case}.loss"], 1e-10 if exact else 2e-6)
    assert i2t.grad is not None and t2i.grad is not None
    close("gradient i2t", i2t.grad, v[f"{case}.dsim_i2t"], 1e-11 if exact else 1e-5)
    close("gradient t2i", t2i.grad, v[f"{case}.dsim_t2i"], 1e-11 if exact else 1e-5)
    for way, (sim, other) in enumerate(((i2t, t2i), (t2i, i2t))):
        soft = losses.soft_targets(sim, other, targets[way], softening, way)
        close("targets", soft, v[f"{case}.target_{('i2t', 't2i')[way]}"], 1e-10 if exact else 1e-5)


def test_consistency_as_the_paper_reports_it() -> None:
    v = vectors("itc_losses")
    targets = losses.hard_targets(no_partners(len(v["in.sim_i2t"])))
    loss = losses.itc(v["in.sim_i2t"], v["in.sim_t2i"], targets, targets, Consistency(float(v["cons.lambda"]), report_kl=True))
    close("loss", loss, v["cons.loss_paper_kl"], 1e-10)


@pytest.mark.parametrize("method", ["sitc", "cons", "cons_additive", "cons_literal", "md", "mdnq"])
def test_soft_labels_golden(method: str) -> None:
    v = vectors("soft_labels")
    b = len(v["in.sim_i2t"])
    columns = b + (v.config["Q"] if method == "md" else 0)
    cons, md = float(v["in.alpha_cons"]), float(v["in.alpha_md"])
    teachers = v["in.sim_i2t_m"][:, :columns], v["in.sim_t2i_m"][:, :columns]
    softening: Softening = {
        "sitc": Smoothed(float(v["in.alpha_sitc"])), "cons": Consistency(cons, "mix"), "cons_additive": Consistency(cons, "additive"),
        "cons_literal": Consistency(cons, "literal"), "md": Distilled(*teachers, md), "mdnq": Distilled(*teachers, md),
    }[method]  # fmt: skip
    queue = torch.zeros(b, columns - b, dtype=torch.bool)
    targets = losses.hard_targets(no_partners(b), queue_same=queue)
    sims = [torch.nn.functional.pad(v[f"in.sim_{way}"], (0, columns - b)) for way in ("i2t", "t2i")]
    for way, name in enumerate(("i2t", "t2i")):
        label = losses.soft_targets(sims[way], sims[1 - way], targets, softening, way)
        if method == "cons_additive":
            label = label / (1 + cons)
        close(name, label, v[f"{method}.label_{name}"], 1e-10)


@pytest.mark.parametrize("reading", ["infonce", "printed", "with_pos"])
def test_uni_golden(reading: str) -> None:
    v = vectors("gpns")
    features = v["in.image_feat"].double()
    image, positive = (features[v[name]].requires_grad_() for name in ("in.batch_index", "in.batch_pos_index"))
    tau = v["in.tau"].clone().requires_grad_()
    close("rows", losses.uni_rows(image, positive, tau, reading), v[f"luni_{reading}.loss_per_sample"], 1e-10)
    loss = losses.uni(image, positive, tau, reading)
    loss.backward()
    close("loss", loss, v[f"luni_{reading}.loss"], 1e-10)
    for got, name in ((image, "d_v"), (positive, "d_pos"), (tau, "d_tau")):
        assert got.grad is not None
        close(name, got.grad, v[f"luni_{reading}.{name}"], 1e-9)


def test_uni_refuses_another_reading() -> None:
    with pytest.raises(ValueError, match="want infonce, printed or with_pos"):
        losses.uni_rows(torch.eye(2), torch.eye(2), 1.0, "other")


def model_of(v: Vectors, prefix: str, recipe: albef.Recipe, dtype: torch.dtype) -> albef.ALBEF:
    c = v.config
    shape = albef.Shape(
        image_size=c["image"], patch_size=len(v[prefix + "visual_encoder.patch_embed.proj.weight"][0, 0]), vision_dim=c["vdim"],
        vision_depth=c["vdepth"], vision_heads=c["vheads"], text_hidden=c["hidden"], text_layers=c["layers"], fusion_layer=c["fusion"],
        text_heads=c["heads"], text_intermediate=c["inter"], vocab_size=c["vocab"], max_positions=c["maxpos"], embed_dim=c["embed"],
    )  # fmt: skip
    model = albef.ALBEF(shape, recipe)
    state = {}
    for name in model.state_dict():
        tensor = prefix + name if prefix + name in v else prefix + name.replace("text_encoder.bert.", "text_encoder.")
        if tensor in v:
            state[name] = v[tensor]
    missing = [n for n in model.load_state_dict(state, strict=False).missing_keys if not n.startswith("momentum.")]
    assert prefix != "w." or not missing, missing
    return model.to(dtype)


def batch_of(v: Vectors, dtype: torch.dtype, epoch: int = 0) -> Batch:
    n = len(v["in.image"])
    none = torch.zeros(n, 0, dtype=torch.int64)
    return Batch(
        lane=0, group=GroupID(lane=0, seq=0), epoch=epoch, sequence=0, seed=0, positions=torch.arange(n), texts=[""] * n,
        tokens={"input_ids": v["in.input_ids"], "attention_mask": v["in.attention_mask"]}, images=v["in.image"].to(dtype), positives=None,
        i2t=none, t2i=none, prob_i2t=none.float(), prob_t2i=none.float(), same_image=no_partners(n),
    )  # fmt: skip


PRECISIONS = [pytest.param(torch.float32, id="float32"), pytest.param(torch.float64, id="float64")]


def check_gradients(v: Vectors, model: albef.ALBEF, dtype: torch.dtype, at: str = "") -> None:
    exact = dtype == torch.float64
    relative, absolute = (1e-8, 1e-12) if exact else (5e-5, 1e-6)
    grads = {n: p.grad for n, p in model.named_parameters()}
    whole, norms = v.family(("grad64." if exact else "grad.") + at), v.family(f"gradnorm.{at}")
    for name, want in whole.items():
        grad = grads[name]
        close(name, torch.zeros_like(want) if grad is None else grad, want, relative, absolute)
    for name, want in norms.items():
        grad = grads[name]
        close(name, torch.zeros(()) if grad is None else grad.double().norm(), want, relative, absolute)
    assert whole and len(norms) > 100


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_grit_step_golden(dtype: torch.dtype) -> None:
    v = vectors("grit_step")
    exact = dtype == torch.float64
    model = model_of(v, "w.", albef.Recipe(targets="consistency", ecm_itc=False, ecm_itm=False, ecm_mlm=False, dropout=0), dtype)
    out = model(batch_of(v, dtype), (v["in.mlm_input_ids"], v["in.mlm_labels"]))
    want = "out64." if exact else "out."
    close("image", out.image, v[want + "image_feat"], 1e-10 if exact else 1e-5)
    close("text", out.text, v[want + "text_feat"], 1e-10 if exact else 1e-5)
    for name, key in (("loss_itc", "loss_ita"), ("loss_itm", "loss_itm"), ("loss_mlm", "loss_mlm")):
        close(name, torch.tensor(out.values[name]), v[want + key], 1e-6 if exact else 2e-6)  # values are read as numbers
    close("total", out.loss, v[want + "loss_total"], 1e-10 if exact else 2e-6)
    out.loss.backward()
    check_gradients(v, model, dtype)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_itm_golden(dtype: torch.dtype) -> None:
    v = vectors("itm_hard")
    exact = dtype == torch.float64
    model, b = model_of(v, "w.", albef.Recipe(dropout=0), dtype), batch_of(v, dtype)
    ids, mask = b.tokens["input_ids"], b.tokens["attention_mask"]
    tokens, hidden = model.visual_encoder(b.images), model.text(ids, mask)
    image, text = model.image_feature(tokens), model.text_feature(hidden)
    sims = losses.similarities(image, text, model.temp), losses.similarities(text, image, model.temp)
    i2t, t2i = (losses.mine(s, b.i2t, b.prob_i2t, b.same_image) for s in sims)
    same("neg_text", i2t.hardest, v["out.neg_text_for_image"])
    same("neg2_text", i2t.second, v["out.neg2_text_for_image"])
    same("neg_image", t2i.hardest, v["out.neg_image_for_text"])
    same("neg2_image", t2i.second, v["out.neg2_image_for_text"])
    pairs = losses.plan_itm(i2t, t2i)
    logits = model.itm_head(model.fuse(hidden[pairs.texts], mask[pairs.texts], tokens[pairs.images])[:, 0])
    want = "out64." if exact else "out."
    reference = torch.cat([v[want + f"itm_logits_{k}"] for k in ("pos", "t2i_neg", "i2t_neg")])
    close("logits", logits, reference, 1e-10 if exact else 1e-5)
    loss = losses.itm(logits, pairs)
    close("loss", loss, v[want + "loss_itm"], 1e-10 if exact else 2e-6)
    loss.backward()
    grads = {n: p.grad for n, p in model.named_parameters()}
    for name, reference in v.family("grad64." if exact else "grad.").items():
        close(name, grads[name], reference, *((1e-8, 1e-12) if exact else (5e-5, 1e-6)))  # type: ignore[arg-type]


def scored(v: Vectors, dtype: torch.dtype, epoch: int) -> Batch:
    """Score all others as candidates by Con-D."""
    con_d, b = model_of(v, "c.", albef.Recipe(dropout=0), dtype), batch_of(v, dtype, epoch)
    n = len(b)
    ids, mask = b.tokens["input_ids"], b.tokens["attention_mask"]
    others = torch.tensor([[j for j in range(n) if j != i] for i in range(n)])
    with torch.no_grad():
        tokens, hidden = con_d.visual_encoder(b.images), con_d.text(ids, mask)

        def match(images: Tensor, texts: Tensor) -> Tensor:
            return con_d.itm_head(con_d.fuse(hidden[texts], mask[texts], tokens[images])[:, 0]).softmax(1)[:, 1]

        own = torch.arange(n).repeat_interleave(n - 1)
        b.i2t, b.t2i = others, others
        b.prob_i2t = match(own, others.reshape(-1)).reshape(n, n - 1)
        b.prob_t2i = match(others.reshape(-1), own).reshape(n, n - 1)
    return b


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_mafa_step_golden(dtype: torch.dtype, epoch: int) -> None:
    v = vectors("mafa_step")
    exact, at = dtype == torch.float64, f"e{epoch}."
    want = "out64." if exact else "out."
    high, low = float(v["in.high_threshold"]), float(v["in.low_threshold"])
    recipe = albef.Recipe(alpha=v.config["smoothing_alpha"], high=high, low=low, dropout=0, soft_from_epoch=1)
    model, b = model_of(v, "w.", recipe, dtype), scored(v, dtype, epoch)
    with torch.no_grad():
        image, text = model.image_feature(model.visual_encoder(b.images)), model.text_feature(model.text(*b.tokens.values()))
        sims = losses.similarities(image, text, model.temp), losses.similarities(text, image, model.temp)
    i2t = losses.mine(sims[0], b.i2t, b.prob_i2t, b.same_image, high=high, low=low)
    t2i = losses.mine(sims[1], b.t2i, b.prob_t2i, b.same_image, high=high, low=low)
    for picks, other, way in ((i2t, "text_for_image", "i2t"), (t2i, "image_for_text", "t2i")):
        same("hardest", picks.hardest, v[f"out.neg_{other}"])
        same("second", picks.second, v[f"out.neg2_{other}"])
        same("class", picks.classes, v[f"out.class_{way}"])
        probs, candidates = (b.prob_i2t, b.i2t) if way == "i2t" else (b.prob_t2i, b.t2i)
        close("probability", probs[candidates == picks.hardest[:, None]], v[f"{want}cond_prob_{way}"], 1e-5)
    pairs, rows = losses.plan_itm(i2t, t2i), losses.plan_mlm(i2t, t2i)
    for got, name in (
        (pairs.images, "itm_image_index"), (pairs.texts, "itm_text_index"), (pairs.labels, "itm_labels"),
        (rows.images, "mlm_image_index"), (rows.texts, "mlm_text_index"),
    ):  # fmt: skip
        same(name, got, v["out." + name])
    targets = [losses.hard_targets(b.same_image, p) for p in (i2t, t2i)]
    for way, name in enumerate(("i2t", "t2i")):
        soft = losses.soft_targets(sims[way], sims[1 - way], targets[way], recipe.softening(epoch), way)
        close("targets", soft, v[f"{want}{at}target_{name}"], 1e-10 if exact else 1e-5)
    out = model(b, (v["in.mlm_input_ids"], v["in.mlm_labels"]))
    for name, key in (("loss_itc", "loss_ita"), ("loss_itm", "loss_itm"), ("loss_mlm", "loss_mlm")):
        close(name, torch.tensor(out.values[name]), v[want + at + key], 1e-6 if exact else 2e-6)
    close("total", out.loss, v[f"{want}{at}loss_total"], 1e-10 if exact else 2e-6)
    out.loss.backward()
    check_gradients(v, model, dtype, at)


def picks(*rows: tuple[int, int, int]) -> Picks:
    return Picks(*(torch.tensor(column) for column in zip(*rows, strict=True)))


def test_what_is_chosen_at_the_edges() -> None:
    sim = torch.tensor([[9.0, 5, 5, 1], [1, 9, 2, 3], [0, 0, 9, 0], [0, 0, 0, 9]])
    candidates = torch.tensor([[2, 1], [3, 0], [-1, -1], [0, 1]])
    probs = torch.tensor([[0.8, 0.9], [0.5, 0.1], [0, 0], [0.81, 0.2]])
    shown = torch.zeros(4, 4, dtype=torch.bool)
    shown[3, 0] = True
    p = losses.mine(sim, candidates, probs, shown)
    assert p.hardest.tolist() == [1, 3, -1, 1] and p.second.tolist() == [2, 0, -1, -1]
    assert p.classes.tolist() == [losses.CONNECTION, losses.AMBIGUOUS, losses.ALONE, losses.NEGATIVE]
    on_the_thresholds = losses.mine(sim[:2, :2], torch.tensor([[1], [0]]), torch.tensor([[0.8], [0.5]]), no_partners(2))
    assert on_the_thresholds.classes.tolist() == [losses.AMBIGUOUS] * 2
    one = losses.mine(torch.ones(1, 1), torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, 0), no_partners(1))
    assert one.hardest.tolist() == [-1] and one.classes.tolist() == [losses.ALONE]


def test_plans_without_connections_and_with_elimination() -> None:
    i2t, t2i = picks((1, -1, 2), (0, 2, 1), (-1, -1, 3)), picks((1, 2, 1), (2, -1, 1), (0, 1, 0))
    plain = losses.plan_itm(i2t, t2i, connections=False)
    assert plain.labels.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    full = losses.plan_itm(i2t, t2i)
    assert list(zip(full.images.tolist(), full.texts.tolist(), full.labels.tolist(), strict=True))[3:] == [(0, 2, 0), (0, 1, 1), (2, 0, 0), (1, 2, 0)]
    assert len(losses.plan_itm(i2t, t2i, eliminate=True).labels) == 6
    assert len(losses.plan_mlm(i2t, t2i, connections=False).images) == 3
    targets = losses.hard_targets(no_partners(3), i2t, eliminate=True)
    assert targets.drop is not None and targets.drop.nonzero().tolist() == [[0, 1]]
    sim = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    for softening in (OneHot(), Smoothed(), Consistency(), Consistency(form="literal"), Distilled(sim, sim)):
        (grad,) = torch.autograd.grad(losses.itc(sim, sim.detach(), targets, Targets(torch.eye(3)), softening), sim)
        assert grad[0, 1] == 0 and bool(grad[1].any())


def test_known_positives_share_a_row() -> None:
    shown = no_partners(3)
    shown[0, 2] = shown[2, 0] = True
    assert losses.hard_targets(shown).values.tolist() == [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]


def test_no_masked_token_is_no_loss() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = losses.mlm(logits, torch.full((2, 3), losses.IGNORE_LABEL))
    loss.backward()
    assert loss.item() == 0 and logits.grad is not None and not logits.grad.any()


def test_masks() -> None:
    rows = [[2, 7, 8, 9, 3, 0, 0]] * 400
    masked, labels = losses.mask_tokens(rows, generator(1, "mlm"), vocabulary=50, pad=0, cls=2, mask=4)
    wanted = sum(label != losses.IGNORE_LABEL for row in labels for label in row)
    hidden = sum(m == 4 for row in masked for m in row)
    assert abs(wanted / 1600 - 0.5) < 0.05 and abs(hidden / wanted - 0.8) < 0.05
    for row, label in zip(masked, labels, strict=True):
        assert row[0] == 2 and row[5:] == [0, 0] and [w for w, s in zip(label, rows[0], strict=True) if w not in (s, losses.IGNORE_LABEL)] == []


def test_tokenizer_golden() -> None:
    import json

    from pairstream.torch.wordpiece import WordPiece

    path, vocab = VECTORS / "tokenizers.json", VECTORS.parent / "vocab/bert-base-uncased-vocab.txt"
    if not path.exists() or not vocab.exists():
        pytest.skip(f"no reference vectors: {path}")
    words = WordPiece(vocab.read_text(encoding="utf-8").split("\n")[:-1])
    for case in json.loads(path.read_text()):
        got = words.encode(case["text"], 25)
        assert got + [0] * (25 - len(got)) == case["bert_ids_max25"], case["text"]
        assert words.encode(case["text"], 1 << 20)[1:-1] == case["bert_ids"], case["text"]

def test_sigmoid_is_siglips() -> None:
    """SigLIP's Algorithm 1, and connections as further positives of one direction."""
    draw = torch.Generator().manual_seed(3)
    image, text = (torch.nn.functional.normalize(torch.randn(5, 8, generator=draw, dtype=torch.float64)).requires_grad_() for _ in range(2))
    t, b = torch.tensor(10.0, dtype=torch.float64), torch.tensor(-10.0, dtype=torch.float64).requires_grad_()
    labels = 2 * torch.eye(5, dtype=torch.float64) - 1
    plain = -torch.nn.functional.logsigmoid(labels * (image @ text.t() * t + b)).sum() / 5
    own = losses.hard_targets(no_partners(5))
    ours = 0.5 * (losses.sigmoid(image, text, own, 1 / t, b) + losses.sigmoid(text, image, own, 1 / t, b))
    for got, want in zip((ours, *torch.autograd.grad(ours, (image, text, b))), (plain, *torch.autograd.grad(plain, (image, text, b))), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    picks = Picks(torch.tensor([3, 0, 0, 0, 0]), torch.full((5,), -1), torch.tensor([CONNECTION, 0, 0, 0, 0]))
    for eliminate, label in ((False, 1.0), (True, 0.0)):
        targets, one_more = losses.hard_targets(no_partners(5), picks, eliminate=eliminate), labels.clone()
        one_more[0, 3] = label
        terms = -torch.nn.functional.logsigmoid(one_more * (image @ text.t() * t + b)) * one_more.abs()
        torch.testing.assert_close(losses.sigmoid(image, text, targets, 1 / t, b), terms.sum() / 5, rtol=1e-12, atol=1e-12)
