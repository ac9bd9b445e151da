"""Shards of a model (FSDP2, PyTorch 2.6 or later): each rank holds a part of every weight, gradient and moment.

    model = shard(ALBEF.load(...), device="cuda")   # under torchrun, before the optimizer is made
    Trainer(model, AdamW(model.decay_groups()), batches, folder, device="cuda").run()

Checkpoints have whole tensors, so ranks may change, and a run may go on without shards.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from ..errors import InvalidError
from .momentum import Momentum

M = TypeVar("M", bound=nn.Module)
_dist: Any = distributed
SUPPORTED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6)
_tensors: Any = import_module("torch.distributed.tensor") if SUPPORTED else None


def device_of(device: str) -> str:
    """Return the device of this rank: for "cuda" the GPU that torchrun gives it."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device == "cuda" else device


def join(device: str, timeout: float) -> None:
    """Join the other ranks of torchrun, over NCCL on GPUs and gloo on processors."""
    gpu = device.startswith("cuda")
    if gpu:
        torch.cuda.set_device(device)
    kind, wait, environ = "nccl" if gpu else "gloo", timedelta(seconds=timeout + 60), os.environ
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or environ.get("LOCAL_WORLD_SIZE") != environ.get("WORLD_SIZE"):
        _dist.init_process_group(kind, timeout=wait)
        return
    # On one machine newer versions of PyTorch (seen: 2.15) give every start the same store. Ranks that were started again would find
    # the addresses of those that were killed there, and wait for them.
    store, rank, world = next(import_module("torch.distributed.rendezvous").rendezvous("env://", timeout=wait))
    store = _dist.PrefixStore(f"start {environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    _dist.init_process_group(kind, store=store, rank=rank, world_size=world, timeout=wait)


def shard(model: M, device: str = "cpu", timeout: float = 600.0) -> M:
    """Cut the weights of a model among the ranks of torchrun; without torchrun only move it to the device.

    Every entry of a ModuleList is gathered by itself, when its turn comes, and the rest as one. Weights that are one number stay
    whole. Raises InvalidError for a model with a momentum model, whose average would be of gathered copies.
    """
    if any(isinstance(m, Momentum) for m in model.modules()):
        raise InvalidError("a model with a momentum model cannot be sharded: want a recipe without one, such as mafa or grit-vlp, or no shards")
    here = device_of(device)
    model = model.to(here)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return model
    if not SUPPORTED:
        raise InvalidError(f"shards want PyTorch 2.6 or later, this is {torch.__version__}")
    if not _dist.is_initialized():
        join(here, timeout)
    fully_shard = import_module("torch.distributed.fsdp").fully_shard
    mesh = import_module("torch.distributed.device_mesh").init_device_mesh(torch.device(here).type, (world,))
    for module in reversed(list(model.modules())):  # the inner ones first
        if isinstance(module, nn.ModuleList):
            for block in module:
                fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params={p for p in model.parameters() if p.dim() == 0})
    return model


def is_cut(t: Tensor) -> bool:
    """Report whether a rank has a shard of a tensor alone."""
    return SUPPORTED and isinstance(t, _tensors.DTensor)


def is_sharded(model: nn.Module) -> bool:
    """Report whether shard has cut a model."""
    return any(is_cut(p) for p in model.parameters())


def clip(model: nn.Module, most: float) -> None:
    """Clip the norm of the gradient, as clip_grad_norm_ does, where some weights are shards and others are whole."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([whole(torch.linalg.vector_norm(g)) for g in grads]))
    factor = min(1.0, most / (float(norm) + 1e-6))
    for g in grads:
        g.mul_(factor)


def whole(tree: Any) -> Any:
    """Return a tree of dicts with whole tensors in place of shards. All ranks must call it."""
    if isinstance(tree, Mapping):
        return {key: whole(value) for key, value in tree.items()}
    of: Any = tree
    return of.full_tensor() if isinstance(tree, Tensor) and is_cut(tree) else tree


def part(full: Tensor, like: Tensor) -> Tensor:
    """Return the shard of a whole tensor that this rank has of another one; itself, where that is whole."""
    if not is_cut(like) or full.shape != like.shape:
        return full
    model: Any = like
    cut: Tensor = _tensors.distribute_tensor(full, model.device_mesh, model.placements)
    return cut
