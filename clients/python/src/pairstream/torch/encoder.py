"""Dual encoders for the encoder stage: TorchScript with encode_image and encode_text, and words and sizes inside."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import PairstreamError
from .checkpoint import read_tensors

_torch: Any = torch  # for what annotations of PyTorch leave out, in one version or another
_OPEN_CLIP = "open_clip_config.json"


class Words(NamedTuple):
    """A tokenizer that pairstream has as well: clip with its merges, wordpiece with its vocabulary, siglip with SentencePiece's model."""

    kind: str
    data: bytes
    length: int  # of the ids that the text tower gets
    fill: int  # id in the places behind a text
    size: int  # number of ids


class Pictures(NamedTuple):
    """How the model's pictures are prepared: resized bicubically, by the shorter side and cropped, or squashed into a square."""

    size: int
    squash: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]


class _Towers(nn.Module):
    """A module with the two methods that the encoder calls."""

    def __init__(self, model: nn.Module, image: Callable[[Tensor], Tensor], text: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._image, self._text = image, text

    def encode_image(self, pixels: Tensor) -> Tensor:
        return self._image(pixels)

    def encode_text(self, ids: Tensor) -> Tensor:
        return self._text(ids)


def export(model: nn.Module, path: str, image: Callable[[Tensor], Tensor], text: Callable[[Tensor], Tensor], words: Words, pictures: Pictures) -> None:
    """Write the towers of a model as ENCODER_CHECKPOINT takes them. image and text call parts of model, and return [n, dim].

    They get pixels [n, 3, size, size] and ids [n, length], and each row must be its own input's alone. Rows need not be of unit length.
    """
    model.eval()
    draw = torch.Generator().manual_seed(0)

    def inputs(n: int) -> tuple[Tensor, Tensor]:
        ids = torch.full((n, words.length), words.fill, dtype=torch.int64)
        ids[:, : words.length // 2] = torch.randint(words.size, (n, words.length // 2), generator=draw)
        return torch.randn(n, 3, pictures.size, pictures.size, generator=draw), ids

    pixels, ids = inputs(2)
    with torch.no_grad():
        with warnings.catch_warnings():  # what could go wrong in tracing is looked at below
            warnings.simplefilter("ignore")
            script = _torch.jit.trace_module(_Towers(model, image, text), {"encode_image": pixels, "encode_text": ids}, check_trace=False)
        pixels, ids = inputs(5)
        for name, got, want in (("image", script.encode_image(pixels), image(pixels)), ("text", script.encode_text(ids), text(ids))):
            if got.shape != want.shape or got.dim() != 2 or not torch.allclose(got, want, rtol=1e-3, atol=1e-4):
                raise PairstreamError(f"the {name} tower cannot be traced: on five inputs it gives {list(got.shape)}, other than the model's {list(want.shape)}")
    config = {
        "image_size": pictures.size, "resize": "squash" if pictures.squash else "crop", "mean": list(pictures.mean), "std": list(pictures.std),
        "text_tokens": words.length, "tokenizer": words.kind,
    }  # fmt: skip
    _torch.jit.save(script, path, _extra_files={"pairstream.encoder": json.dumps(config), "pairstream.words": words.data})


def export_encoder(model: str, path: str, *, weights: str = "", text_tokens: int = 0) -> None:
    """Write an encoder of a model that open_clip or transformers load.

    model: a name or folder of transformers; a folder with open_clip_config.json; a name of open_clip ("ViT-B-32", "hf-hub:..."), with weights, its
    `pretrained`: a tag or a checkpoint of its training script. text_tokens: the length of texts; 0: the model's own.
    """
    if weights or model.startswith("hf-hub:") or (Path(model) / _OPEN_CLIP).exists():
        _open_clip(model, path, weights, text_tokens)
    else:
        _transformers(model, path, text_tokens)


def _loaded(package: str) -> Any:
    try:
        return __import__(package)
    except ImportError as err:
        raise PairstreamError(f"{package} cannot be loaded: {err}; pip install {'open_clip_torch' if package == 'open_clip' else package}") from err


def _open_clip(name: str, path: str, weights: str, text_tokens: int) -> None:
    open_clip = _loaded("open_clip")
    folder = Path(name)
    if (folder / _OPEN_CLIP).exists():
        about = json.loads((folder / _OPEN_CLIP).read_text(encoding="utf-8"))
        found = [f for f in ("open_clip_model.safetensors", "open_clip_pytorch_model.bin") if (folder / f).exists()]
        weights = weights or str(folder / (found or ["open_clip_model.safetensors"])[0])
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "pairstream-export.json").write_text(json.dumps(about["model_cfg"]))
            open_clip.add_model_config(place)
        pictures = {f"image_{k}": v for k, v in about.get("preprocess_cfg", {}).items() if k in ("mean", "std", "interpolation", "resize_mode")}
        model = open_clip.create_model_and_transforms("pairstream-export", **pictures)[0]
        _load(model, weights)
        words = about["model_cfg"]["text_cfg"]
        tokenizer = _auto_tokenizer(name) if words.get("hf_tokenizer_name") else open_clip.SimpleTokenizer()
        length = words.get("context_length", 77)
    else:
        file = weights if Path(weights).is_file() else ""
        model = open_clip.create_model_and_transforms(name, pretrained=None if file else weights or None)[0]
        if file:
            _load(model, file)
        tokenizer = open_clip.get_tokenizer(name)
        length = getattr(tokenizer, "context_length", None) or model.context_length
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
    c = model.visual.preprocess_cfg
    if c["interpolation"] != "bicubic" or c["resize_mode"] not in ("shortest", "squash"):
        raise PairstreamError(f"{name} resizes pictures by {c['interpolation']}, {c['resize_mode']}: pairstream knows bicubic, shortest or squash")
    size = c["size"] if isinstance(c["size"], int) else c["size"][0]
    about_pictures = Pictures(size, c["resize_mode"] == "squash", tuple(c["mean"]), tuple(c["std"]))
    # open_clip fills its own byte-pair texts up with zeros, and others with the tokenizer's padding.
    export(model, path, model.encode_image, model.encode_text, words_of(tokenizer, text_tokens or length), about_pictures)


def _load(model: nn.Module, weights: str) -> None:
    """Load a file of open_clip: weights, or a checkpoint of its training script."""
    found: Any = load_file(weights) if weights.endswith(".safetensors") else read_tensors(weights)
    state = {k.removeprefix("module."): v for k, v in found.get("state_dict", found).items() if isinstance(v, Tensor)}
    try:
        model.load_state_dict(state)
    except RuntimeError as err:
        raise PairstreamError(f"{weights} has other weights than the model: {err}") from err


def _auto_tokenizer(name: str) -> Any:
    tokenizer: Any = _loaded("transformers").AutoTokenizer.from_pretrained(name)
    return tokenizer


def _transformers(name: str, path: str, text_tokens: int) -> None:
    transformers = _loaded("transformers")
    try:
        model = transformers.AutoModel.from_pretrained(name)
        processor, tokenizer = transformers.AutoImageProcessor.from_pretrained(name), _auto_tokenizer(name)
    except (OSError, ValueError) as err:
        raise PairstreamError(f"transformers loads no model with pictures and words from {name}: {err}") from err
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        raise PairstreamError(f"{name} is a {type(model).__name__}, want a dual encoder such as CLIPModel or SiglipModel")
    words = words_of(tokenizer, text_tokens or model.config.text_config.max_position_embeddings)
    masked = words.kind == "wordpiece"

    def text(ids: Tensor) -> Tensor:
        return _features(model.get_text_features(input_ids=ids, **({"attention_mask": ids.ne(words.fill).to(torch.int64)} if masked else {})))

    export(model, path, lambda pixels: _features(model.get_image_features(pixel_values=pixels)), text, words, _pictures(name, processor))


def _features(out: Any) -> Tensor:
    """Return the features; transformers 5 has more around them."""
    features: Tensor = out if isinstance(out, Tensor) else out.pooler_output
    return features


def _pictures(name: str, processor: Any) -> Pictures:
    size = dict(processor.size)
    crop = dict(processor.crop_size) if getattr(processor, "do_center_crop", False) else None
    sides = {size.get("height"), size.get("width")} if "height" in size else {size.get("shortest_edge")}
    if crop:
        sides |= {crop.get("height"), crop.get("width")}
    whole = processor.do_resize and processor.do_normalize and processor.do_rescale and processor.resample == 3 and abs(processor.rescale_factor * 255 - 1) < 1e-6
    if not whole or len(sides) != 1 or None in sides or (crop is None) != ("height" in size):
        raise PairstreamError(
            f"{name} prepares pictures with size {size}, crop {crop}, resample {processor.resample}, factor {processor.rescale_factor}: pairstream resizes "
            "bicubically, to the shorter side with a crop of the same size, or to a square"
        )
    return Pictures(int(sides.pop() or 0), crop is None, tuple(processor.image_mean), tuple(processor.image_std))


def words_of(tokenizer: Any, length: int) -> Words:
    """Return what pairstream needs of a tokenizer of open_clip or transformers."""
    kind = type(tokenizer).__name__
    if kind == "SimpleTokenizer":  # open_clip's
        merges = sorted(tokenizer.bpe_ranks, key=lambda pair: tokenizer.bpe_ranks[pair])
        return Words("clip", _merges(merges, tokenizer.encoder), length, 0, len(tokenizer.encoder))
    if kind.startswith("CLIPTokenizer"):
        ranks = getattr(tokenizer, "bpe_ranks", None)
        pairs = sorted(ranks, key=lambda pair: ranks[pair]) if ranks else [_pair(m) for m in _backend(tokenizer)["model"]["merges"]]
        return Words("clip", _merges(pairs, tokenizer.get_vocab()), length, 0, len(pairs) + 514)
    if kind.startswith("BertTokenizer"):
        places: dict[str, int] = tokenizer.get_vocab()
        lower = tokenizer.do_lower_case if hasattr(tokenizer, "do_lower_case") else _backend(tokenizer)["normalizer"].get("lowercase")
        if not lower or sorted(places.values()) != list(range(len(places))):
            raise PairstreamError(f"the tokenizer keeps capitals, or numbers its {len(places)} tokens with gaps: pairstream has BERT's uncased one")
        return Words("wordpiece", "\n".join(sorted(places, key=lambda token: places[token])).encode(), length, places["[PAD]"], len(places))
    model = _sentence_piece(tokenizer)
    if model is None or tokenizer.pad_token_id is None:
        raise PairstreamError(f"the tokenizer is a {kind}, want CLIP's, BERT's or SigLIP's; SigLIP 2 has Gemma's")
    end = tokenizer.convert_tokens_to_ids("</s>")
    if kind.startswith("Siglip") or tokenizer.pad_token_id == end:
        return Words("siglip", model, length, end, tokenizer.vocab_size)
    raise PairstreamError(f"the tokenizer is a {kind} that fills texts up with id {tokenizer.pad_token_id}, want SigLIP's, which takes </s>, {end}")


def _backend(tokenizer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return found


def _pair(merge: Any) -> tuple[str, str]:
    a, b = merge.split(" ") if isinstance(merge, str) else merge
    return a, b


def _merges(pairs: list[tuple[str, str]], ids: dict[str, int]) -> bytes:
    """Return the merge file; the tokens must have the numbers that follow from it."""
    first = 512
    wrong = [a + b for i, (a, b) in enumerate(pairs) if ids.get(a + b) != first + i]
    # open_clip writes its own start and end in another way from version to version.
    ends = [next((ids[token] for token in tokens if token in ids), -1) for tokens in (("<|startoftext|>", "<start_of_text>"), ("<|endoftext|>", "<end_of_text>"))]
    if wrong or not pairs or ends != [first + len(pairs), first + len(pairs) + 1]:
        raise PairstreamError(f"the tokenizer numbers {(wrong or ['its start and end'])[0]!r} in another way than CLIP's")
    return "".join(f"{a} {b}\n" for a, b in [("#version:", "pairstream"), *pairs]).encode()


def _sentence_piece(tokenizer: Any) -> bytes | None:
    """Return the model of SentencePiece: its file's bytes, or one that is made of a fast tokenizer's pieces."""
    place = getattr(tokenizer, "vocab_file", None)
    if place and Path(place).suffix == ".model" and Path(place).exists():
        return Path(place).read_bytes()
    if not hasattr(tokenizer, "backend_tokenizer"):
        return None
    about = _backend(tokenizer)
    if about["model"]["type"] != "Unigram" or about["model"].get("byte_fallback"):
        return None
    special = {token["content"] for token in about["added_tokens"] if token["special"]}
    out = b""
    for i, (piece, score) in enumerate(about["model"]["vocab"]):
        kind = 2 if i == about["model"]["unk_id"] else 3 if piece in special else 1
        text = piece.encode()
        body = b"\x0a" + _varint(len(text)) + text + b"\x15" + torch.tensor([score], dtype=torch.float32).numpy().tobytes() + b"\x18" + _varint(kind)
        out += b"\x0a" + _varint(len(body)) + body
    rules = _charsmap(about["normalizer"])
    spec = b"\x12" + _varint(len(rules)) + rules if rules else b""
    return out + b"\x1a" + _varint(len(spec)) + spec


def _charsmap(normalizer: Any) -> bytes:
    import base64

    if normalizer is None:
        return b""
    if normalizer["type"] == "Sequence":
        return b"".join(_charsmap(part) for part in normalizer["normalizers"])
    return base64.b64decode(normalizer["precompiled_charsmap"]) if normalizer["type"] == "Precompiled" else b""


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])
