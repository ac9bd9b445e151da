"""Embedding pairs: PIL or torchvision on a pool of threads (both let go of Python's lock), and the model in PyTorch."""

import json
from concurrent.futures import ThreadPoolExecutor

import torch

import common
from albef import ALBEF, read_metadata, read_safetensors
import decode

CLS, SEP, DOG = 2, 3, 5


class Encode:
    def __init__(self, job):
        torch.set_num_threads(job.threads)
        self.job, self.files, self.batch = job, decode.read(job), job.option("batch")
        path = job.path("encode.safetensors")
        self.config = json.loads(read_metadata(path)["pairstream.config"])
        self.model = ALBEF(self.config).eval()
        self.model.load_state_dict(read_safetensors(path))
        self.precision = getattr(torch, job.precision)
        self.model.to(self.precision, memory_format=torch.channels_last)
        self.embed, self.load = self.vectors, decode.load
        if "compiled" in job.variant:
            self.embed = torch.compile(self.vectors)
        if "torchvision" in job.variant:
            import decode_torchvision

            self.load = decode_torchvision.load
        self.pool = ThreadPoolExecutor(job.threads)
        self.ids = torch.tensor([CLS] + [DOG] * 10 + [SEP])

    def vectors(self, pixels, ids):
        m = self.model
        return torch.stack(m.features(m.visual_encoder(pixels), m.text_encoder.bert.alone(ids, None)), 1)

    @torch.no_grad()
    def run(self):
        size, found = self.config["image_size"], []
        for begin in range(0, len(self.files), self.batch):
            files = self.files[begin : begin + self.batch]
            pixels = torch.stack(list(self.pool.map(lambda raw: self.load(raw, size), files)))
            pixels = pixels.to(self.precision, memory_format=torch.channels_last)
            found.append(self.embed(pixels, self.ids.repeat(len(files), 1)).float())
        self.found = torch.cat(found)

    def check(self):
        ours = torch.from_numpy(self.job.floats("encoded.f32", self.config["embed_dim"])).view(self.found.shape)
        return {"least_cosine": (ours * self.found).sum(-1).min()}


common.serve(Encode)
