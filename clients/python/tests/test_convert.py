"""First weights from DeiT and BERT, and the way back to ALBEF's code."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, safe_open

from pairstream import CheckpointError
from pairstream.__main__ import main
from pairstream.torch.convert import POSITIONS, resized
from pairstream.torch.export import albef_state
from pairstream.torch.first import State, first_weights, text, vision
from pairstream.torch.trainer import _read
from pairstream.torch.wordpiece import read_vocab

transformers = pytest.importorskip("transformers", reason="DeiT and BERT are built with transformers")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
WIDTH, LAYERS, WORDS, PATCH, SIDE = 128, 12, 60, 8, 4


def bert(head: bool = True) -> transformers.PreTrainedModel:
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=WIDTH // 64, intermediate_size=96, max_position_embeddings=40,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return (transformers.BertForPreTraining if head else transformers.BertModel)(config).eval()


def vit(kind: str = "ViT") -> transformers.PreTrainedModel:
    torch.manual_seed(2)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=WIDTH // 64, intermediate_size=4 * WIDTH, image_size=PATCH * SIDE, patch_size=PATCH, layer_norm_eps=1e-6,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = getattr(transformers, f"{kind}ForImageClassification")(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.02)  # biases and norms that differ
    return model


def timm_names(state: State) -> State:
    """The same weights as timm names them."""
    out: State = {"head.weight": torch.zeros(10, WIDTH), "head.bias": torch.zeros(10)}
    for name, tensor in vision(state, PATCH * SIDE).items():
        out[name.removeprefix("visual_encoder.")] = tensor
    return out


def test_deit_by_either_name_gives_its_features() -> None:
    """Hugging Face's DeiT and the model's image encoder agree, and timm's names give the same weights."""
    import albef

    model = vit()
    state = first_weights(model.state_dict(), bert().state_dict(), image_size=PATCH * SIDE, embed_dim=16)
    shape = albef.Shape(
        image_size=PATCH * SIDE, patch_size=PATCH, vision_dim=WIDTH, vision_depth=3, vision_heads=2, text_hidden=WIDTH, text_layers=LAYERS, fusion_layer=6,
        text_heads=2, text_intermediate=96, vocab_size=WORDS, max_positions=40, embed_dim=16, text_tokens=25,
    )  # fmt: skip
    ours = albef.ALBEF(shape, albef.Recipe(dropout=0.0)).eval()
    ours.load_state_dict(state)
    images, ids = torch.randn(2, 3, PATCH * SIDE, PATCH * SIDE), torch.randint(1, WORDS, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    with torch.no_grad():
        want = model.vit(images).last_hidden_state
        assert torch.allclose(ours.visual_encoder(images), want, atol=1e-5)
        full = bert().bert(ids, attention_mask=mask, output_hidden_states=True)
        hidden = ours.text(ids, mask)
        real = mask.bool()
        assert torch.allclose(hidden[real], full.hidden_states[6][real], atol=1e-5)
        for layer in ours.text_encoder.bert.encoder.layer[6:]:  # the fusion layers are BERT's last, without an image
            hidden = layer(hidden, ((1 - mask.float()) * albef.PADDED)[:, None, None], None)
        assert torch.allclose(hidden[real], full.last_hidden_state[real], atol=1e-5)
    again = vision(timm_names(model.state_dict()), PATCH * SIDE)
    assert {n: t for n, t in state.items() if n.startswith("visual")}.keys() == again.keys()
    assert all(torch.equal(again[n], state[n]) for n in again)


def test_position_embeddings_are_resized_bicubically() -> None:
    state = vit().state_dict()
    small, large = vision(state, PATCH * SIDE)[POSITIONS], vision(state, PATCH * 6)[POSITIONS]
    assert torch.equal(small, state["vit.embeddings.position_embeddings"]) and large.shape == (1, 37, WIDTH)
    grid = small[:, 1:].reshape(1, SIDE, SIDE, WIDTH).permute(0, 3, 1, 2)
    want = torch.nn.functional.interpolate(grid, size=(6, 6), mode="bicubic", align_corners=False).permute(0, 2, 3, 1).reshape(1, 36, WIDTH)
    assert torch.equal(large[:, :1], small[:, :1]) and torch.equal(large[:, 1:], want) and torch.equal(resized(small, SIDE), small)


def test_a_distilled_deit_loses_its_second_token() -> None:
    model = vit("DeiT")
    state = model.state_dict()
    assert state["deit.embeddings.position_embeddings"].shape[1] == SIDE * SIDE + 2
    got = vision(state, PATCH * SIDE)
    positions = state["deit.embeddings.position_embeddings"]
    assert torch.equal(got[POSITIONS], torch.cat([positions[:, :1], positions[:, 2:]], 1)) and "visual_encoder.dist_token" not in got


def test_what_neither_file_has_is_drawn() -> None:
    state = first_weights(vit().state_dict(), bert(head=False).state_dict(), image_size=PATCH * SIDE, embed_dim=16, seed=5)
    again = first_weights(vit().state_dict(), bert(head=False).state_dict(), image_size=PATCH * SIDE, embed_dim=16, seed=5)
    other = first_weights(vit().state_dict(), bert(head=False).state_dict(), image_size=PATCH * SIDE, embed_dim=16, seed=6)
    assert all(torch.equal(state[n], again[n]) for n in state)
    drawn = {n for n in state if not torch.equal(state[n], other[n])}
    cross = {f"text_encoder.bert.encoder.layer.{i}.crossattention.{p}.weight" for i in range(6, 12) for p in ("self.query", "self.key", "self.value", "output.dense")}
    linear = {f"{n}.{p}" for n in ("vision_proj", "text_proj", "itm_head") for p in ("weight", "bias")}
    assert drawn == cross | linear | {"text_encoder.cls.predictions.transform.dense.weight"}
    for name in cross:
        assert abs(state[name].std() - 0.02) < 1e-3 and abs(state[name].mean()) < 1e-3
    for name in linear:
        assert state[name].abs().max() <= WIDTH**-0.5 and state[name].unique().numel() > 1
    assert state["temp"] == 0.07 and torch.equal(state["text_encoder.cls.predictions.transform.LayerNorm.weight"], torch.ones(WIDTH))


def test_old_names_of_bert() -> None:
    """Early checkpoints call the weights of normalisations gamma and beta."""
    state = bert().state_dict()
    old = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t for n, t in state.items()}
    a, b = text(state), text(old)
    assert a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)
    assert not any("pooler" in n or "seq_relationship" in n or "decoder" in n or n.endswith("position_ids") for n in a)


def make_files(folder: Path) -> list[str]:
    torch.save({"model": timm_names(vit().state_dict())}, folder / "deit.pth")
    torch.save(bert().state_dict(), folder / "bert.bin")
    (folder / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(WORDS)) + "\n", encoding="utf-8")
    return [str(folder / "deit.pth"), str(folder / "bert.bin"), str(folder / "first.safetensors"), "--vocab", str(folder / "vocab.txt"), "--embed-dim", "16", "--image-size", "48", "--heads", "2"]


def test_there_and_back_is_equal_to_the_bit(tmp_path: Path) -> None:
    """Files become first weights, these a checkpoint of ALBEF's code, and that the same weights."""
    args = make_files(tmp_path)
    first, back = args[2], str(tmp_path / "again.safetensors")
    assert main(["init", *args]) == 0
    with safe_open(first, "pt") as f:
        config = json.loads(f.metadata()["pairstream.config"])
    assert (config["image_size"], config["vision_depth"], config["fusion_layer"], config["text_layers"], config["text_tokens"], config["caption_words"]) == (48, 3, 6, 12, 25, 30)
    assert main(["export", first, str(tmp_path / "their.pth"), "--queue", "32"]) == 0
    assert main(["convert", str(tmp_path / "their.pth"), back, "--vocab", str(tmp_path / "vocab.txt")]) == 0
    a, b = load_file(first), load_file(back)
    assert a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)
    with safe_open(back, "pt") as f:
        assert json.loads(f.metadata()["pairstream.config"]) == config


@pytest.mark.parametrize("heads", [2, 4])
def test_larger_images_keep_the_heads(tmp_path: Path, heads: int) -> None:
    """Weights that are exported and converted for larger images have the heads of before, and features close to theirs."""
    import albef

    args = [a if a != "2" else str(heads) for a in make_files(tmp_path)]
    first, larger = args[2], str(tmp_path / "larger.safetensors")
    assert main(["init", *args]) == 0
    assert main(["export", first, str(tmp_path / "their.pth"), "--queue", "0"]) == 0
    assert main(["convert", str(tmp_path / "their.pth"), larger, "--vocab", str(tmp_path / "vocab.txt"), "--image-size", "64"]) == 0
    features = {}
    picture = torch.rand(1, 3, 6, 6)
    for path, side in ((first, 48), (larger, 64)):
        with safe_open(path, "pt") as f:
            config = json.loads(f.metadata()["pairstream.config"])
        assert (config["image_size"], config["vision_heads"], config["text_heads"]) == (side, heads, heads)
        config.pop("caption_words")
        model = albef.ALBEF(albef.Shape(**config), albef.Recipe(dropout=0.0)).eval()
        model.load_state_dict(load_file(path))
        with torch.no_grad():
            features[path] = model.visual_encoder(torch.nn.functional.interpolate(picture, size=(side, side), mode="bicubic"))[0, 0]
    assert torch.cosine_similarity(features[first], features[larger], dim=0) > 0.99


def test_convert_guesses_no_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = make_files(tmp_path)
    assert main(["init", *args]) == 0
    assert main(["export", args[2], str(tmp_path / "their.pth"), "--queue", "0"]) == 0
    state = torch.load(tmp_path / "their.pth")
    torch.save({"model": state["model"]}, tmp_path / "bare.pth")
    convert = ["convert", str(tmp_path / "bare.pth"), str(tmp_path / "out.safetensors"), "--vocab", str(tmp_path / "vocab.txt")]
    assert main(convert) == 1
    assert "does not say how many attention heads its image encoder has" in capsys.readouterr().err
    assert main([*convert, "--heads", "2"]) == 0
    assert main(["init", *args[:-2]]) == 1
    assert "give --heads" in capsys.readouterr().err
    assert main([*(a.replace("bare", "their") for a in convert), "--heads", "4"]) == 1
    assert "--heads is 4, but the file says 2" in capsys.readouterr().err


# What the state of the authors' models is made of, for models of 12 text layers.


def bert_names(top: str, layers: int, fusion: int) -> set[str]:
    norm = ["LayerNorm.weight", "LayerNorm.bias"]
    embeddings = ["position_ids", "word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight", *norm]
    out = {f"{top}embeddings.{e}" for e in embeddings}

    def linear(name: str) -> set[str]:
        return {f"{name}.weight", f"{name}.bias"}

    for i in range(layers):
        at = f"{top}encoder.layer.{i}."
        for attention in ["attention", "crossattention"][: 2 if i >= fusion else 1]:
            for part in ("self.query", "self.key", "self.value", "output.dense", "output.LayerNorm"):
                out |= linear(f"{at}{attention}.{part}")
        for part in ("intermediate.dense", "output.dense", "output.LayerNorm"):
            out |= linear(at + part)
    return out


def head_names(top: str) -> set[str]:
    return {f"{top}cls.predictions.{n}" for n in ("bias", "transform.dense.weight", "transform.dense.bias", "transform.LayerNorm.weight", "transform.LayerNorm.bias",
                                                  "decoder.weight", "decoder.bias")}  # fmt: skip


def vit_names(top: str, depth: int) -> set[str]:
    out = {f"{top}{n}" for n in ("cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias", "norm.weight", "norm.bias")}
    parts = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
    return out | {f"{top}blocks.{i}.{p}.{w}" for i in range(depth) for p in parts for w in ("weight", "bias")}


def both(names: set[str]) -> set[str]:
    """The names and those of the momentum copies."""
    return names | {re.sub(r"^(\w+?)\.", r"\1_m.", n) for n in names}


def as_scripts_rename(state: State, task: str) -> State:
    """What the authors' scripts do to the names before they load a checkpoint."""
    if task == "nlvr":
        return dict(state)
    out: State = {}
    for name, tensor in state.items():
        plain = name.replace("bert.", "")
        if task != "vqa" or "text_encoder" not in name:
            out[plain] = tensor
            continue
        if "bert" in name:
            out[plain] = tensor
        found = re.search(r"\.layer\.(\d+)\.", name)  # the last six layers also begin the decoder, with all that is no layer
        if found and int(found[1]) < 6:
            continue
        if found:
            name = name.replace(found[0], f".layer.{int(found[1]) - 6}.")
        out[name.replace("text_encoder", "text_decoder")] = tensor
    return out


def wanted(task: str) -> set[str]:
    encoder = both(vit_names("visual_encoder.", 3))
    if task == "nlvr":
        return encoder | both(bert_names("text_encoder.", 18, 6))
    if task == "vqa":
        return encoder | both(bert_names("text_encoder.", 12, 6) | bert_names("text_decoder.bert.", 6, 0) | head_names("text_decoder."))
    names = encoder | both(bert_names("text_encoder.", 12, 6))
    if task == "ve":
        return names
    projections = both({f"{n}.{p}" for n in ("vision_proj", "text_proj") for p in ("weight", "bias")})
    return names | projections | {"itm_head.weight", "itm_head.bias", "temp", "image_queue", "text_queue", "idx_queue", "queue_ptr"}


@pytest.mark.parametrize("task", ["retrieval", "vqa", "nlvr", "ve"])
def test_the_authors_models_miss_nothing(task: str) -> None:
    """Each of their models finds all of its state but the heads that it adds, under the names that its script makes."""
    weights = first_weights(vit().state_dict(), bert().state_dict(), image_size=PATCH * SIDE, embed_dim=16)
    state = as_scripts_rename(albef_state(weights, nlvr=task == "nlvr", queue=32), task)
    assert not wanted(task) - state.keys()
    for name in state:
        part, dot, rest = name.partition(".")
        if part.endswith("_m"):  # a copy, which momentum may move without the other
            assert torch.equal(state[name], state[part.removesuffix("_m") + dot + rest]) and state[name] is not state[part.removesuffix("_m") + dot + rest]
    if task == "nlvr":
        for i in range(6):
            for name in ("attention.self.query.weight", "crossattention.self.value.bias"):
                source = weights[f"text_encoder.bert.encoder.layer.{6 + i}.{name}"]
                assert all(torch.equal(state[f"text_encoder.encoder.layer.{6 + 2 * i + k}.{name}"], source) for k in range(2))
    if task == "vqa":
        last = "output.dense.weight"
        assert torch.equal(state[f"text_decoder.bert.encoder.layer.0.{last}"], weights[f"text_encoder.bert.encoder.layer.6.{last}"])
    if task == "retrieval":
        assert state["image_queue"].shape == (16, 32) and torch.allclose(state["image_queue"].norm(dim=0), torch.ones(32)) and state["queue_ptr"].tolist() == [0]


@pytest.mark.parametrize("nlvr", [False, True])
def test_a_checkpoint_keeps_its_average_and_its_queue(nlvr: bool) -> None:
    """Copies are the trained average. The queue is in the authors' layout, and what only our trainer reads is left out."""
    weights = first_weights(vit().state_dict(), bert().state_dict(), image_size=PATCH * SIDE, embed_dim=16)
    average = {name: tensor + 1 for name, tensor in weights.items()}
    checkpoint = dict(weights)
    for name, tensor in weights.items():
        checkpoint |= {f"optim.mean.{name}": tensor, f"optim.square.{name}": tensor, f"momentum.{name}": average[name]}
    rows = torch.nn.functional.normalize(torch.randn(32, 16), dim=1)  # newest first
    checkpoint |= {"optim.steps": torch.zeros(3), "queue.image": rows, "queue.text": -rows, "queue.ids": torch.zeros(32, 16, dtype=torch.uint8)}
    got = albef_state(checkpoint, nlvr=nlvr, queue=32)
    plain, of_average = (albef_state(w, nlvr=nlvr, queue=32) for w in (weights, average))
    assert got.keys() == plain.keys()
    for name, tensor in got.items():
        top = name.partition(".")[0]
        if name in ("image_queue", "text_queue"):
            assert torch.equal(tensor[:, -1], rows[0] if name == "image_queue" else -rows[0])  # column 0 is the oldest, and goes next
            assert torch.equal(tensor[:, 0], rows[-1] if name == "image_queue" else -rows[-1])
        else:
            assert torch.equal(tensor, (of_average if top.endswith("_m") else plain)[name]), name
    other = albef_state(checkpoint, nlvr=nlvr, queue=48)
    assert other["image_queue"].shape == (16, 48) and torch.allclose(other["image_queue"].norm(dim=0), torch.ones(48))
    assert "image_queue" not in albef_state(checkpoint, nlvr=nlvr)


def test_converters_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = make_files(tmp_path)
    (tmp_path / "short.txt").write_text("a\nb\n")
    for change, says in (
        ({0: args[1]}, "the image weights have no cls_token"),
        ({1: args[0]}, "the text weights have no embeddings"),
        ({4: str(tmp_path / "short.txt")}, "the vocabulary has 2 tokens, the text weights 60"),
        ({8: "50"}, "--image-size is 50, want a multiple of the patch size, 8"),
    ):
        assert main(["init", *(change.get(i, a) for i, a in enumerate(args))]) == 1
        assert says in capsys.readouterr().err
    assert main(["init", *args]) == 0
    torch.save({}, tmp_path / "none.pth")
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, str(tmp_path / "none.safetensors"))
    assert main(["export", str(tmp_path / "none.safetensors"), str(tmp_path / "x.pth")]) == 1
    assert "no weights of pairstream's model" in capsys.readouterr().err


class Program(torch.nn.Module):
    """A module whose archive runs __setstate__ while PyTorch loads it."""

    @torch.jit.export
    def __getstate__(self) -> int:
        return 1

    @torch.jit.export
    def __setstate__(self, state: int) -> None:
        assert state == 0, "the program ran"

    def forward(self) -> int:
        return 0


def test_a_program_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stranger's TorchScript by the name of a checkpoint is refused before PyTorch, which may run it, sees it."""
    args = make_files(tmp_path)
    program = str(tmp_path / "albef.pth")
    torch.jit.script(Program()).save(program)
    for command in (
        ["convert", program, str(tmp_path / "x"), "--vocab", args[4]], ["init", program, *args[1:]], ["init", args[0], program, *args[2:]],
    ):  # fmt: skip
        assert main(command) == 1
        assert "albef.pth is TorchScript, which is a program" in capsys.readouterr().err
    assert main(["convert", program, str(tmp_path / "x"), "--vocab", args[4], "--trust"]) == 1
    assert "the program ran" in capsys.readouterr().err
    raw = b"PK" + Path(program).read_bytes()[2:]
    (tmp_path / "checkpoint-000000000001.pt").write_bytes(hashlib.sha256(raw).digest() + raw)
    with pytest.raises(CheckpointError, match="is TorchScript"):
        _read(tmp_path / "checkpoint-000000000001.pt", "cpu")
    torch.save({"about": Path("a function that is called")}, program)
    raw = Path(program).read_bytes()
    (tmp_path / "checkpoint-000000000001.pt").write_bytes(hashlib.sha256(raw).digest() + raw)
    with pytest.raises(CheckpointError, match="holds more than tensors"):
        _read(tmp_path / "checkpoint-000000000001.pt", "cpu")


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = str(tmp_path / "albef.pth")
    torch.save({"model": {"a": Path("a function that is called")}}, checkpoint)
    command = ["convert", checkpoint, str(tmp_path / "x"), "--vocab", make_files(tmp_path)[4]]
    assert main(command) == 1
    assert "cannot be read as tensors alone, without --trust" in capsys.readouterr().err
    torch.save([torch.zeros(1)], checkpoint)
    assert main(command) == 1
    assert "holds a list, want a dictionary of tensors" in capsys.readouterr().err
    raw = Path(checkpoint).read_bytes()
    for broken in (b"", raw[: len(raw) // 2], b"no pickle"):
        Path(checkpoint).write_bytes(broken)
        assert main(command) == 1, broken
        assert "albef.pth" in capsys.readouterr().err


def test_a_vocabulary_of_another_editor(tmp_path: Path) -> None:
    """It may begin with a byte order mark, end its lines as Windows does, and have tokens that Python takes for ends of lines."""
    (tmp_path / "v").write_bytes("\ufeff[PAD]\r\n\u2028\r\n\x85\r\ncat".encode())
    assert read_vocab(tmp_path / "v") == ["[PAD]", "\u2028", "\x85", "cat"]
    (tmp_path / "v").write_bytes(b"")
    assert read_vocab(tmp_path / "v") == []
