"""ALBEF's architecture in plain PyTorch, as GRIT-VLP and MAFA train it; names of the weights are those of their code."""

import json
import math

import numpy
import torch
from torch import nn
from torch.nn import functional as F


def read_header(path):
    raw = numpy.fromfile(path, dtype="uint8")
    length = int(raw[:8].view("<u8")[0])
    return json.loads(raw[8 : 8 + length].tobytes()), raw[8 + length :]


def read_metadata(path):
    return read_header(path)[0]["__metadata__"]


def read_safetensors(path):
    header, body = read_header(path)
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        weights[name] = torch.from_numpy(body[begin:end].view("<f4").reshape(entry["shape"]).copy())
    return weights


def attend(q, k, v, mask):
    """Attention, by PyTorch's own kernel where it has one."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v


class VisionAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(attend(q, k, v, None).transpose(1, 2).reshape(n, length, width))

    def first(self, x):
        """What forward gives the first token."""
        n, length, width = x.shape
        q = F.linear(x[:, :1], self.qkv.weight[:width], self.qkv.bias[:width]).view(n, 1, self.heads, -1).transpose(1, 2)
        both = F.linear(x, self.qkv.weight[width:], self.qkv.bias[width:])
        k, v = both.view(n, length, 2, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(attend(q, k, v, None).transpose(1, 2).reshape(n, 1, width))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class VisionBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = VisionAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = MLP(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    def first(self, x):
        x = x[:, :1] + self.attn.first(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, patch, width):
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Vision(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, side = c["vision_dim"], c["image_size"] // c["patch_size"]
        self.patch_embed = PatchEmbed(c["patch_size"], width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, side * side + 1, width))
        self.blocks = nn.ModuleList(VisionBlock(width, c["vision_heads"]) for _ in range(c["vision_depth"]))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x, first=False):
        """With first, the first token alone, without the work that only the others need."""
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
        for block in self.blocks[: -1 if first else None]:
            x = block(x)
        return self.norm(self.blocks[-1].first(x) if first else x)


class TextAttentionScores(nn.Module):
    def __init__(self, width, key_width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(key_width, width)
        self.value = nn.Linear(key_width, width)

    def forward(self, x, keys, mask):
        def split(t):
            return t.view(len(t), t.shape[1], self.heads, -1).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(keys)), split(self.value(keys))
        return attend(q, k, v, mask).transpose(1, 2).reshape(x.shape)


class Output(nn.Module):
    """A projection, the residual connection and the normalisation after it."""

    def __init__(self, width_in, width):
        super().__init__()
        self.dense = nn.Linear(width_in, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class TextAttention(nn.Module):
    def __init__(self, width, key_width, heads):
        super().__init__()
        self.self = TextAttentionScores(width, key_width, heads)
        self.output = Output(width, width)

    def forward(self, x, keys, mask):
        return self.output(self.self(x, keys, mask), x)


class Intermediate(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.dense = nn.Linear(width, hidden)

    def forward(self, x):
        return F.gelu(self.dense(x))


class TextLayer(nn.Module):
    def __init__(self, c, fusion):
        super().__init__()
        width, heads = c["text_hidden"], c["text_heads"]
        self.attention = TextAttention(width, width, heads)
        if fusion:
            self.crossattention = TextAttention(width, c["vision_dim"], heads)
        self.intermediate = Intermediate(width, c["text_intermediate"])
        self.output = Output(c["text_intermediate"], width)

    def forward(self, x, mask, image):
        x = self.attention(x, x, mask)
        if image is not None:
            x = self.crossattention(x, image, None)
        return self.output(self.intermediate(x), x)

    def first(self, x, mask):
        x = self.attention.output(self.attention.self(x[:, :1], x, mask), x[:, :1])
        return self.output(self.intermediate(x), x)


class Embeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["text_hidden"]
        self.word_embeddings = nn.Embedding(c["vocab_size"], width, padding_idx=0)
        self.position_embeddings = nn.Embedding(c["max_positions"], width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, ids):
        places = self.position_embeddings.weight[: ids.shape[1]] + self.token_type_embeddings.weight[:1]
        return self.LayerNorm(self.word_embeddings(ids) + places)


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layer = nn.ModuleList(TextLayer(c, i >= c["fusion_layer"]) for i in range(c["text_layers"]))


class Bert(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fusion = c["fusion_layer"]
        self.embeddings = Embeddings(c)
        self.encoder = Encoder(c)

    def alone(self, ids, mask, first=False):
        x = self.embeddings(ids)
        for layer in self.encoder.layer[: self.fusion - first]:
            x = layer(x, mask, None)
        return self.encoder.layer[self.fusion - 1].first(x, mask) if first else x

    def fuse(self, x, mask, image):
        for layer in self.encoder.layer[self.fusion :]:
            x = layer(x, mask, image)
        return x


class Predictions(nn.Module):
    """BERT's head for masked words; its decoder is the table of word embeddings."""

    def __init__(self, c):
        super().__init__()
        width = c["text_hidden"]
        self.transform = nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=1e-12)})
        self.bias = nn.Parameter(torch.zeros(c["vocab_size"]))

    def forward(self, x, words):
        x = self.transform["LayerNorm"](F.gelu(self.transform["dense"](x)))
        return F.linear(x, words, self.bias)


class Text(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.bert = Bert(c)
        self.cls = nn.ModuleDict({"predictions": Predictions(c)})


class ALBEF(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.visual_encoder = Vision(c)
        self.text_encoder = Text(c)
        self.vision_proj = nn.Linear(c["vision_dim"], c["embed_dim"])
        self.text_proj = nn.Linear(c["text_hidden"], c["embed_dim"])
        self.itm_head = nn.Linear(c["text_hidden"], 2)
        self.temp = nn.Parameter(torch.ones([]))

    def features(self, images, texts):
        v = F.normalize(self.vision_proj(images[:, 0]), dim=-1)
        return v, F.normalize(self.text_proj(texts[:, 0]), dim=-1)
