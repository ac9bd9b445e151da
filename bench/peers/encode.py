"""Embedding pairs: PIL on a pool of threads (it lets go of Python's lock), and the model in PyTorch."""

import json
from concurrent.futures import ThreadPoolExecutor

import torch

import common
from albef import ALBEF, read_metadata, read_safetensors
from decode import load, read

CLS, SEP, DOG = 2, 3, 5


class Encode:
    def __init__(self, job):
        torch.set_num_threads(job.threads)
        self.job, self.files, self.batch = job, read(job), job.option("batch")
        path = job.path("encode.safetensors")
        self.config = json.loads(read_metadata(path)["pairstream.config"])
        self.model = ALBEF(self.config).eval()
        self.model.load_state_dict(read_safetensors(path))
        self.pool = ThreadPoolExecutor(job.threads)
        self.ids = torch.tensor([CLS] + [DOG] * 10 + [SEP])

    @torch.no_grad()
    def run(self):
        m, size, found = self.model, self.config["image_size"], []
        for begin in range(0, len(self.files), self.batch):
            files = self.files[begin : begin + self.batch]
            pixels = torch.stack(list(self.pool.map(lambda raw: load(raw, size), files)))
            ids = self.ids.expand(len(files), -1)
            texts = m.text_encoder.bert.alone(ids, None)
            found.append(torch.stack(m.features(m.visual_encoder(pixels), texts), 1))
        self.found = torch.cat(found)

    def check(self):
        ours = torch.from_numpy(self.job.floats("encoded.f32", self.config["embed_dim"])).view(self.found.shape)
        return {"least_cosine": (ours * self.found).sum(-1).min()}


common.serve(Encode)
