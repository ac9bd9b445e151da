"""export-encoder: what open_clip and transformers write, and what is refused. encoder_test.go compares the vectors."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from pairstream.__main__ import main
from pairstream.errors import PairstreamError
from pairstream.torch.encoder import _features, words_of

SIZE = 32
CAPTIONS = ["A red dog on a beach!", "two_green kites,   beside the Umbrella", "", "crème brûlée & a zebra ☃ " * 9, "don't 3 cats"]
SIGLIP = Path(__file__).parents[3] / "internal/content/token/testdata/siglip/siglip.bin"


def pictures(folder: Path) -> list[Path]:
    """Write pictures of several shapes. Of an odd surplus transformers cuts off another pixel than OpenAI, whom pairstream follows."""
    paths = []
    for i, (w, h) in enumerate([(40, 40), (61, 37), (33, 91), (32, 32)]):
        noise = torch.rand(3, 6, 5, generator=torch.Generator().manual_seed(i))
        smooth = torch.nn.functional.interpolate(noise[None], (h, w), mode="bilinear")[0].mul(255).byte().permute(1, 2, 0).contiguous()
        paths.append(folder / f"{i}.png")
        Image.fromarray(smooth.numpy()).save(paths[-1])
    return paths


def _shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Change weights at random, so that biases and norms matter."""
    torch.manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model.eval()


def clip_tokenizer(folder: Path) -> Any:
    """Make a small tokenizer of CLIP in the format of transformers, with the numbers of OpenAI's."""
    from transformers import CLIPTokenizer

    merges = [("a", "b"), ("d", "o"), ("do", "g</w>"), ("r", "e"), ("re", "d</w>"), ("b", "e"), ("a", "c"), ("be", "ac"), ("o", "n</w>")]
    printed = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    letters = [chr(b) for b in printed] + [chr(256 + i) for i in range(256 - len(printed))]
    tokens = [*letters, *(c + "</w>" for c in letters), *(a + b for a, b in merges), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


def small_clip(folder: Path) -> Any:
    """Save a random CLIP of transformers, with what AutoModel and the processors read."""
    import transformers

    words = clip_tokenizer(folder)
    words.save_pretrained(folder)
    text = {
        "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": len(words), "max_position_embeddings": 24,
        "hidden_act": "gelu", "bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1,
    }  # fmt: skip
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIZE, "patch_size": 8, "hidden_act": "gelu"}
    model = _shaken(transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)))
    model.save_pretrained(folder)
    transformers.CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size=SIZE).save_pretrained(folder)
    return model


def siglip_words(folder: Path) -> Any:
    """Make a fast tokenizer of SentencePiece's model, as timm's SigLIPs have it."""
    from transformers import T5TokenizerFast

    (folder / "words").mkdir()
    (folder / "words/spiece.model").write_bytes(SIGLIP.read_bytes())
    return T5TokenizerFast.from_pretrained(folder / "words", extra_ids=0, pad_token="</s>")


def small_siglip(folder: Path) -> Any:
    """Save a random SigLIP of transformers, with SentencePiece's model."""
    import transformers

    words = transformers.SiglipTokenizer(str(SIGLIP))
    words.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.SiglipConfig(
        text_config=sizes | {"vocab_size": len(words), "max_position_embeddings": 16}, vision_config=sizes | {"image_size": SIZE, "patch_size": 8}
    )
    model = _shaken(transformers.SiglipModel(config))
    model.save_pretrained(folder)
    transformers.SiglipImageProcessor(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return model


def small_open_clip(folder: Path, *, custom: bool) -> Any:
    """Save a random model in the format of open_clip's push_to_hf_hub; custom: in the way of SigLIP's, with another text tower's choices."""
    import open_clip
    from open_clip.push_to_hf_hub import save_for_hf

    about: dict[str, Any] = {
        "embed_dim": 16, "vision_cfg": {"image_size": SIZE, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
    }  # fmt: skip
    sizes: dict[str, Any] = {}
    if custom:
        words = siglip_words(folder)
        about |= {"custom_text": True, "init_logit_bias": -10}
        about["vision_cfg"]["no_ln_pre"] = True
        about["text_cfg"] = {
            "context_length": 16, "vocab_size": len(words), "hf_tokenizer_name": "timm/ViT-B-16-SigLIP", "tokenizer_kwargs": {"clean": "canonicalize"}, "width": 32,
            "heads": 4, "layers": 2, "no_causal_mask": True, "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6},
        }  # fmt: skip
        sizes = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5), "image_interpolation": "bicubic", "image_resize_mode": "squash"}
    folder.mkdir(exist_ok=True)
    (folder / "small.json").write_text(json.dumps(about))
    open_clip.add_model_config(folder / "small.json")
    model = _shaken(open_clip.create_model_and_transforms("small", **sizes)[0])

    class Tokenizer:
        def save_pretrained(self, place: Path) -> None:
            if custom:
                words.save_pretrained(place)

    save_for_hf(model, Tokenizer(), about, str(folder), safe_serialization=True)
    (folder / "small.json").unlink()
    return model


def vectors(kind: str, folder: Path) -> dict[str, list[list[float]]]:
    """Make the model of a kind in folder, and return its own vectors of the pictures and captions, prepared by its own code."""
    paths = pictures(folder)
    images = [Image.open(path).convert("RGB") for path in paths]
    with torch.no_grad():
        if kind.startswith("open_clip"):
            import open_clip

            model = small_open_clip(folder, custom=kind != "open_clip")
            c = open_clip.transform.PreprocessCfg(**model.visual.preprocess_cfg)
            pixels = torch.stack([open_clip.transform.image_transform_v2(c, is_train=False)(image) for image in images])
            if kind == "open_clip":
                ids = open_clip.get_tokenizer("ViT-B-32")(CAPTIONS, context_length=24)
            else:
                ids = open_clip.tokenizer.HFTokenizer(str(folder), context_length=16, clean="canonicalize")(CAPTIONS)
            image, text = model.encode_image(pixels), model.encode_text(ids)
        else:
            import transformers

            model = small_clip(folder) if kind == "clip" else small_siglip(folder)
            pixels = transformers.AutoImageProcessor.from_pretrained(folder)(images, return_tensors="pt")["pixel_values"]
            captions = [c.replace("_", " ") if kind == "siglip" else c for c in CAPTIONS]  # as the authors do
            tokens = transformers.AutoTokenizer.from_pretrained(folder)(captions, padding="max_length", truncation=True, max_length=24 if kind == "clip" else 16, return_tensors="pt")
            image, text = map(_features, (model.get_image_features(pixel_values=pixels), model.get_text_features(input_ids=tokens["input_ids"])))
    return {"images": torch.nn.functional.normalize(image, dim=-1).tolist(), "texts": torch.nn.functional.normalize(text, dim=-1).tolist()}


def make(kind: str, folder: Path) -> None:
    """For encoder_test.go: make a model and its encoder, and print the vectors."""
    found = vectors(kind, folder)
    assert main(["export-encoder", str(folder), str(folder / "encoder.pt")]) == 0
    print(json.dumps(found))


@pytest.mark.parametrize("kind", ["clip", "siglip", "open_clip", "open_clip-siglip"])
def test_export_encoder(kind: str, tmp_path: Path) -> None:
    """The file gives the model's own vectors of tokens and pixels, and says what its inputs are."""
    pytest.importorskip("transformers", reason="the models are Hugging Face's")
    if kind.startswith("open_clip"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytest.importorskip("open_clip", reason="the models are open_clip's")
    if "siglip" in kind:
        pytest.importorskip("sentencepiece", reason="SigLIP's words are SentencePiece's")
    vectors(kind, tmp_path)
    out = tmp_path / "encoder.pt"
    assert main(["export-encoder", str(tmp_path), str(out)]) == 0
    extra = {"pairstream.encoder": "", "pairstream.words": ""}
    script = torch.jit.load(str(out), _extra_files=extra)
    about = json.loads(extra["pairstream.encoder"])
    squash = "siglip" in kind
    assert about["image_size"] == SIZE and about["resize"] == ("squash" if squash else "crop") and about["tokenizer"] == ("siglip" if squash else "clip")
    assert about["text_tokens"] == (16 if squash else 24) and (about["mean"] == [0.5, 0.5, 0.5]) == squash
    for n in (1, 7):
        assert script.encode_image(torch.zeros(n, 3, SIZE, SIZE)).shape == (n, 32 if kind == "siglip" else 16)
        assert script.encode_text(torch.ones(n, about["text_tokens"], dtype=torch.int64)).shape[0] == n


def test_export_encoder_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers", reason="the models are Hugging Face's")
    small_clip(tmp_path)
    out = str(tmp_path / "encoder.pt")
    transformers.CLIPImageProcessor(size={"shortest_edge": 40}, crop_size=SIZE).save_pretrained(tmp_path)
    assert main(["export-encoder", str(tmp_path), out]) == 1
    assert "prepares pictures with size {'shortest_edge': 40}" in capsys.readouterr().err
    assert main(["export-encoder", str(tmp_path / "none"), out]) == 1
    assert "transformers loads no model" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "open_clip", None)
    assert main(["export-encoder", "ViT-B-32", out, "--weights", "none.pt"]) == 1
    assert "pip install open_clip_torch" in capsys.readouterr().err
    assert not Path(out).exists()

    class Other:
        pad_token_id = 0

    with pytest.raises(PairstreamError, match="is a Other, want CLIP's"):
        words_of(Other(), 8)
    words = clip_tokenizer(tmp_path)
    monkeypatch.setattr(words, "get_vocab", dict)
    with pytest.raises(PairstreamError, match="numbers 'ab' in another way"):
        words_of(words, 8)


def test_words_without_a_file(tmp_path: Path) -> None:
    """A fast tokenizer's pieces become a model of SentencePiece that gives the same ids; BERT's become a vocabulary."""
    transformers = pytest.importorskip("transformers", reason="the tokenizers are Hugging Face's")
    sentencepiece = pytest.importorskip("sentencepiece", reason="SigLIP's words are SentencePiece's")
    tokenizer = siglip_words(tmp_path)
    tokenizer.vocab_file = None
    words = words_of(tokenizer, 16)
    made = sentencepiece.SentencePieceProcessor(model_proto=words.data)
    for text in ("a red dog", "ﬁsh … zebra ☃", "the green horses"):
        assert [*made.encode(text), 1] == tokenizer(text)["input_ids"]
    assert words[:1] + words[2:] == ("siglip", 16, 1, len(tokenizer))
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab))
    for kind in (transformers.BertTokenizer, transformers.BertTokenizerFast):
        assert words_of(kind(str(tmp_path / "vocab.txt")), 9) == ("wordpiece", "\n".join(vocab).encode(), 9, 0, 7)
    with pytest.raises(PairstreamError, match="keeps capitals"):
        words_of(transformers.BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False), 9)
