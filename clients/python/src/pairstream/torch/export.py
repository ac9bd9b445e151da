"""pairstream's weights as a checkpoint of ALBEF's code, for its scripts of retrieval, VQA, NLVR2 and SNLI-VE."""

from __future__ import annotations

import re

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from ..errors import PairstreamError
from .convert import CONFIG

State = dict[str, Tensor]
_LAYER = re.compile(r"(text_encoder(?:\.bert)?\.encoder\.layer\.)(\d+)(\..+)")


def albef_state(tensors: State, *, nlvr: bool = False, queue: int = 0) -> State:
    """Return the state of the authors' model, of weights or a checkpoint: the weights, their aliases, momentum copies and queues.

    The copies are the checkpoint's momentum encoder. The queues are its own if they hold as many features as `queue`. Without a momentum
    encoder the copies are the weights, and without such queues they hold random unit features. The optimiser's state is left out.

    nlvr: as their NLVR.py takes it, with every fusion layer twice, since the model sees two images, and without the MLM head.
    """
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(("optim.", "momentum.", "queue."))}
    average = {name: tensors.get(f"momentum.{name}", tensor) for name, tensor in weights.items()}
    state = _named(weights, nlvr)
    for name, tensor in _named(average, nlvr).items():
        part, dot, rest = name.partition(".")
        if part in ("visual_encoder", "text_encoder", "vision_proj", "text_proj"):
            state[f"{part}_m{dot}{rest}"] = tensor.clone()
    if queue:
        draw = torch.Generator().manual_seed(0)
        width = len(weights["vision_proj.bias"])
        for name in ("image", "text"):
            state[f"{name}_queue"] = torch.nn.functional.normalize(torch.randn(width, queue, generator=draw), dim=0)
            trained = tensors.get(f"queue.{name}")
            if trained is not None and len(trained) == queue:
                # Ours has the newest row first. Theirs has features in columns, and overwrites column 0 next.
                state[f"{name}_queue"] = trained.flip(0).T.contiguous()
        state["idx_queue"], state["queue_ptr"] = torch.full((1, queue), -100), torch.zeros(1, dtype=torch.int64)
    return state


def _named(weights: State, nlvr: bool) -> State:
    """Return weights under the authors' names, with aliases."""
    state = {name: tensor for name, tensor in weights.items() if not nlvr or not name.startswith("text_encoder.cls.")}
    deep = any(name.startswith("text_encoder.bert.") for name in state)
    embeddings = f"text_encoder.{'bert.' if deep else ''}embeddings"
    if f"{embeddings}.position_embeddings.weight" not in state:
        raise PairstreamError("no weights of pairstream's model in this file")
    state[f"{embeddings}.position_ids"] = torch.arange(len(state[f"{embeddings}.position_embeddings.weight"])).unsqueeze(0)
    if "text_encoder.cls.predictions.bias" in state:
        state["text_encoder.cls.predictions.decoder.weight"] = state[f"{embeddings}.word_embeddings.weight"]
        state["text_encoder.cls.predictions.decoder.bias"] = state["text_encoder.cls.predictions.bias"]
    return _doubled(state) if nlvr else state


def _doubled(state: State) -> State:
    """Write each fusion layer twice, one for either image, and the text encoder one level higher."""
    fusion = min(int(found[2]) for name in state if ".crossattention." in name and (found := _LAYER.fullmatch(name)))
    out: State = {}
    for name, tensor in state.items():
        found = _LAYER.fullmatch(name)
        numbers = [] if found is None else [int(found[2])] if int(found[2]) < fusion else [2 * int(found[2]) - fusion + k for k in range(2)]
        for n in numbers:
            assert found is not None
            out[f"text_encoder.encoder.layer.{n}{found[3]}"] = tensor
        if found is None:
            out[name.replace("text_encoder.bert.", "text_encoder.")] = tensor
    return out


def export_albef(weights: str, out: str, *, nlvr: bool, queue: int) -> int:
    """Write a checkpoint of ALBEF's code; return how many tensors it has. It says the configuration, for the way back by `convert`."""
    state = albef_state(load_file(weights), nlvr=nlvr, queue=queue)
    with safe_open(weights, framework="pt") as file:
        config = (file.metadata() or {}).get(CONFIG)
    torch.save({"model": state} | ({CONFIG: config} if config else {}), out)
    return len(state)
