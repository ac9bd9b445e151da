"""Weights of the papers' authors for pairstream."""

from __future__ import annotations

import json
from typing import Any

import torch
from safetensors.torch import save_file

from ..errors import PairstreamError
from .checkpoint import read_tensors
from .wordpiece import read_vocab

POSITIONS = "visual_encoder.pos_embed"
CONFIG = "pairstream.config"  # key of the model's configuration, in the metadata of weights and in files of `export`
PUBLISHED = (192, 384, 768, 1024)  # widths whose published ViTs and BERTs all have heads of 64


def wanted(name: str) -> bool:
    """Report whether pairstream's model has the tensor: momentum copies, queues, buffers and aliases stay behind."""
    top = name.split(".")[0]
    return not (top.endswith("_m") or "queue" in top or name.endswith("position_ids") or ".cls.predictions.decoder." in name)


def resized(positions: torch.Tensor, side: int) -> torch.Tensor:
    """Resize position embeddings to side x side patches, as ALBEF does to fine-tune on larger images."""
    first, patches = positions[:, :1], positions[:, 1:]
    old = int(patches.shape[1] ** 0.5)
    if old == side:
        return positions
    grid = patches.reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
    return torch.cat([first, grid.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


def converted(state: dict[str, torch.Tensor], image_size: int = 0) -> dict[str, torch.Tensor]:
    """Return the tensors of pairstream's model among those of a checkpoint."""
    tensors = {}
    for name, tensor in state.items():
        name = name.removeprefix("module.")
        if wanted(name):
            tensors[name] = tensor.detach().float()
    if image_size:
        patch = tensors["visual_encoder.patch_embed.proj.weight"].shape[-1]
        if image_size % patch:
            raise PairstreamError(f"--image-size is {image_size}, want a multiple of the patch size, {patch}")
        tensors[POSITIONS] = resized(tensors[POSITIONS], image_size // patch)
    # A copy each: the format refuses tensors that share memory.
    return {name: tensor.clone().contiguous() for name, tensor in tensors.items()}


def heads_of(width: int, part: str) -> int:
    """Return the attention heads of a published width. No shape shows them, and another number ruins a model without an error."""
    if width not in PUBLISHED:
        raise PairstreamError(f"the file does not say how many attention heads its {part} has, and a width of {width} is no published one: give --heads")
    return width // 64


def shape_of(state: dict[str, torch.Tensor], heads: int = 0) -> dict[str, int]:
    """Return the configuration that a weights file of pairstream has inside: sizes from the shapes, heads of published widths if heads is 0.

    Texts are 25 tokens of 30 words, as the authors pre-train.
    """
    top = "text_encoder.bert." if any(name.startswith("text_encoder.bert.") for name in state) else "text_encoder."
    words, patch = state[f"{top}embeddings.word_embeddings.weight"], state["visual_encoder.patch_embed.proj.weight"]
    layers = {int(name.removeprefix(f"{top}encoder.layer.").split(".")[0]) for name in state if name.startswith(f"{top}encoder.layer.")}
    fused = {int(name.removeprefix(f"{top}encoder.layer.").split(".")[0]) for name in state if ".crossattention." in name}
    width, hidden = patch.shape[0], words.shape[1]
    positions = len(state[f"{top}embeddings.position_embeddings.weight"])
    return {
        "image_size": int((state[POSITIONS].shape[1] - 1) ** 0.5) * patch.shape[-1], "patch_size": patch.shape[-1],
        "vision_dim": width, "vision_depth": 1 + max(int(n.split(".")[2]) for n in state if n.startswith("visual_encoder.blocks.")),
        "vision_heads": heads or heads_of(width, "image encoder"), "text_hidden": hidden, "text_layers": 1 + max(layers), "fusion_layer": min(fused),
        "text_heads": heads or heads_of(hidden, "text encoder"), "text_intermediate": len(state[f"{top}encoder.layer.0.intermediate.dense.bias"]),
        "vocab_size": len(words), "max_positions": positions, "embed_dim": len(state["vision_proj.bias"]),
        "text_tokens": min(25, positions), "caption_words": 30,
    }  # fmt: skip


def config_of(loaded: dict[str, Any], tensors: dict[str, torch.Tensor], heads: int) -> dict[str, int]:
    """Return the configuration that `export` wrote into a checkpoint, or else that of the shapes, with the size of the position embeddings."""
    if CONFIG not in loaded:
        return shape_of(tensors, heads)
    config: dict[str, int] = json.loads(loaded[CONFIG])
    if heads and heads != config["vision_heads"]:
        raise PairstreamError(f"--heads is {heads}, but the file says {config['vision_heads']}: leave it out")
    patch = tensors["visual_encoder.patch_embed.proj.weight"].shape[-1]
    return config | {"image_size": int((tensors[POSITIONS].shape[1] - 1) ** 0.5) * patch}


def convert_file(checkpoint: str, out: str, vocab_file: str, *, image_size: int = 0, heads: int = 0, trust: bool = False) -> tuple[int, int]:
    """Write the weights of a checkpoint with vocabulary and configuration; return how many tensors were kept, of how many."""
    loaded = read_tensors(checkpoint, trust=trust)
    state: dict[str, torch.Tensor] = loaded.get("model", loaded)
    vocab = read_vocab(vocab_file)
    tensors = converted(state, image_size)
    words = tensors.get("text_encoder.bert.embeddings.word_embeddings.weight", tensors.get("text_encoder.embeddings.word_embeddings.weight"))
    if words is None or POSITIONS not in tensors:
        raise PairstreamError("no model of the ALBEF architecture in this file")
    if len(words) != len(vocab):
        raise PairstreamError(f"the vocabulary has {len(vocab)} tokens, the model {len(words)}")
    config = config_of(loaded, tensors, heads)
    save_file(tensors, out, metadata={CONFIG: json.dumps(config), "pairstream.vocab": "\n".join(vocab)})
    return len(tensors), len(state)
