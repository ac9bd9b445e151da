"""Weights of the papers' authors for pairstream."""

from __future__ import annotations

import torch
from safetensors.torch import save_file

from ..errors import PairstreamError
from .checkpoint import read_tensors
from .wordpiece import read_vocab

POSITIONS = "visual_encoder.pos_embed"


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


def convert_file(checkpoint: str, out: str, vocab_file: str, *, image_size: int = 0, trust: bool = False) -> tuple[int, int]:
    """Write the weights of a checkpoint with their vocabulary; return how many tensors were kept, of how many."""
    loaded = read_tensors(checkpoint, trust=trust)
    state: dict[str, torch.Tensor] = loaded.get("model", loaded)
    vocab = read_vocab(vocab_file)
    tensors = converted(state, image_size)
    words = tensors.get("text_encoder.bert.embeddings.word_embeddings.weight", tensors.get("text_encoder.embeddings.word_embeddings.weight"))
    if words is None or POSITIONS not in tensors:
        raise PairstreamError("no model of the ALBEF architecture in this file")
    if len(words) != len(vocab):
        raise PairstreamError(f"the vocabulary has {len(vocab)} tokens, the model {len(words)}")
    save_file(tensors, out, metadata={"pairstream.vocab": "\n".join(vocab)})
    return len(tensors), len(state)
