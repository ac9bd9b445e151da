"""First weights of the model from DeiT and BERT, as ALBEF begins its pre-training."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import PairstreamError
from .checkpoint import read_tensors
from .convert import POSITIONS, resized, shape_of
from .wordpiece import read_vocab

State = dict[str, Tensor]

# Hugging Face's files have the first names; models of transformers 5 have the second ones in memory.
_BLOCK = re.compile(r"(?:encoder\.layer|layers)\.(\d+)\.(.+)\.(weight|bias)")
_QUERIES = {"attention.attention.query": ("query", "key", "value"), "attention.q_proj": ("q_proj", "k_proj", "v_proj")}
_TIMM = {
    "layernorm_before": "norm1", "attention.output.dense": "attn.proj", "layernorm_after": "norm2", "intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2",
    "attention.o_proj": "attn.proj", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2",
}  # fmt: skip
_VISION = {
    "embeddings.cls_token": "cls_token", "embeddings.distillation_token": "dist_token", "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection.weight": "patch_embed.proj.weight", "embeddings.patch_embeddings.projection.bias": "patch_embed.proj.bias",
    "layernorm.weight": "norm.weight", "layernorm.bias": "norm.bias",
}  # fmt: skip


def read_state(path: str, trust: bool = False) -> State:
    """Read the tensors of a file of safetensors, or of a PyTorch checkpoint."""
    if Path(path).suffix == ".safetensors":
        return dict(load_file(path))
    loaded = read_tensors(path, trust=trust)
    state: State = loaded.get("model", loaded)
    return state


def vision(state: State, image_size: int) -> State:
    """Return the image encoder of a DeiT or ViT, by timm's names or Hugging Face's, for images of image_size pixels."""
    plain = {re.sub(r"^(vit|deit)\.", "", name): tensor for name, tensor in state.items()}
    if "embeddings.cls_token" in plain:
        plain = _timm(plain)
    missing = [name for name in ("cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "norm.weight") if name not in plain]
    if missing:
        raise PairstreamError(f"the image weights have no {', '.join(missing)}: want a DeiT or ViT by timm's or Hugging Face's names")
    patch = plain["patch_embed.proj.weight"].shape[-1]
    if image_size % patch:
        raise PairstreamError(f"--image-size is {image_size}, want a multiple of the patch size, {patch}")
    positions = plain["pos_embed"].float()
    if "dist_token" in plain:  # a second token in front of the patches, which the model has not
        positions = torch.cat([positions[:, :1], positions[:, 2:]], 1)
    kept = re.compile(r"cls_token|patch_embed\.proj\.\w+|blocks\.\d+\.(norm1|norm2|attn\.qkv|attn\.proj|mlp\.fc1|mlp\.fc2)\.\w+|norm\.\w+")
    out = {f"visual_encoder.{name}": tensor for name, tensor in plain.items() if kept.fullmatch(name)}
    out[POSITIONS] = resized(positions, image_size // patch)
    return out


def _timm(state: State) -> State:
    """Give a ViT of Hugging Face timm's names; query, key and value become one matrix."""
    out = {_VISION[name]: tensor for name, tensor in state.items() if name in _VISION}
    for name, tensor in state.items():
        found = _BLOCK.fullmatch(name)
        if not found:
            continue
        layer, part, kind = found.groups()
        if part in _QUERIES:
            query, *others = _QUERIES[part]
            rows = [tensor] + [state[name.replace(query, other)] for other in others]
            out[f"blocks.{layer}.attn.qkv.{kind}"] = torch.cat(rows)
        elif part in _TIMM:
            out[f"blocks.{layer}.{_TIMM[part]}.{kind}"] = tensor
    return out


def text(state: State) -> State:
    """Return the text encoder, and the MLM head if it is there, of a BERT by Hugging Face's names."""
    out: State = {}
    for name, tensor in state.items():
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        inner = name.removeprefix("bert.")
        if re.match(r"embeddings\.(word|position|token_type)_embeddings\.|embeddings\.LayerNorm\.|encoder\.layer\.", inner):
            out[f"text_encoder.bert.{inner}"] = tensor
        elif name == "cls.predictions.bias" or name.startswith("cls.predictions.transform."):
            out[f"text_encoder.{name}"] = tensor
    if "text_encoder.bert.embeddings.word_embeddings.weight" not in out or "text_encoder.bert.encoder.layer.1.output.dense.weight" not in out:
        raise PairstreamError("the text weights have no embeddings and layers: want a BERT by Hugging Face's names")
    return out


def first_weights(image: State, words: State, *, image_size: int = 256, embed_dim: int = 256, seed: int = 0) -> State:
    """Return weights of the model: DeiT's, the first half of BERT's layers for texts, and the second half for fusion.

    What neither has is drawn as the authors' code draws it: cross-attention with a deviation of 0.02, projections and the
    matching head uniformly within one over the root of their input's width. So is an MLM head that the file lacks.
    """
    out = vision(image, image_size) | text(words)
    width, hidden = out["visual_encoder.cls_token"].shape[-1], out["text_encoder.bert.embeddings.word_embeddings.weight"].shape[1]
    layers = 1 + max(int(name.split(".")[4]) for name in out if ".encoder.layer." in name)
    draw = torch.Generator().manual_seed(seed)

    def normal(name: str, rows: int, columns: int) -> None:
        out[f"{name}.weight"] = torch.randn(rows, columns, generator=draw).mul(0.02)
        out[f"{name}.bias"] = torch.zeros(rows)

    def norm(name: str) -> None:
        out[f"{name}.weight"], out[f"{name}.bias"] = torch.ones(hidden), torch.zeros(hidden)

    for i in range(layers // 2, layers):
        at = f"text_encoder.bert.encoder.layer.{i}.crossattention"
        normal(f"{at}.self.query", hidden, hidden)
        normal(f"{at}.self.key", hidden, width)
        normal(f"{at}.self.value", hidden, width)
        normal(f"{at}.output.dense", hidden, hidden)
        norm(f"{at}.output.LayerNorm")
    head = "text_encoder.cls.predictions"
    if f"{head}.bias" not in out:
        normal(f"{head}.transform.dense", hidden, hidden)
        norm(f"{head}.transform.LayerNorm")
        out[f"{head}.bias"] = torch.zeros(len(out["text_encoder.bert.embeddings.word_embeddings.weight"]))
    for name, rows, columns in (("vision_proj", embed_dim, width), ("text_proj", embed_dim, hidden), ("itm_head", 2, hidden)):
        for part, shape in (("weight", (rows, columns)), ("bias", (rows,))):
            bound = torch.tensor(columns).rsqrt()
            out[f"{name}.{part}"] = (torch.rand(shape, generator=draw) * 2 - 1) * bound
    out["temp"] = torch.tensor(0.07)
    return {name: tensor.detach().float().clone().contiguous() for name, tensor in out.items()}


def write_first(image: str, words: str, out: str, vocab_file: str, *, image_size: int, embed_dim: int, seed: int, trust: bool, heads: int = 0) -> int:
    """Write first weights with their vocabulary and configuration; return how many tensors they have."""
    state = first_weights(read_state(image, trust), read_state(words, trust), image_size=image_size, embed_dim=embed_dim, seed=seed)
    vocab = read_vocab(vocab_file)
    config = shape_of(state, heads)
    if config["vocab_size"] != len(vocab):
        raise PairstreamError(f"the vocabulary has {len(vocab)} tokens, the text weights {config['vocab_size']}")
    save_file(state, out, metadata={"pairstream.config": json.dumps(config), "pairstream.vocab": "\n".join(vocab)})
    return len(state)
