"""Embedding pairs: a decoder on a pool of threads (all let go of Python's lock), and the model in PyTorch or OpenVINO.

The last block of either tower computes the first token alone, as pairstream's does.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import torch

import common
from albef import ALBEF, read_metadata, read_safetensors
import decode

CLS, SEP, DOG = 2, 3, 5


class Vectors(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixels, ids):
        m = self.model
        return torch.stack(m.features(m.visual_encoder(pixels, True), m.text_encoder.bert.alone(ids, None, True)), 1)


class Encode:
    def __init__(self, job):
        torch.set_num_threads(job.threads)
        self.job, self.files, self.batch = job, decode.read(job), job.option("batch")
        path = job.path("encode.safetensors")
        self.config = json.loads(read_metadata(path)["pairstream.config"])
        model = ALBEF(self.config).eval()
        model.load_state_dict(read_safetensors(path))
        self.precision = getattr(torch, job.precision)
        self.ids = torch.tensor([CLS] + [DOG] * 10 + [SEP])
        self.load = self.decoder()
        self.embed = self.vectors(Vectors(model).eval())
        self.pool = ThreadPoolExecutor(job.threads)

    def decoder(self):
        if "torchvision" in self.job.variant:
            import decode_torchvision

            return decode_torchvision.load
        if "simplejpeg" in self.job.variant:
            import decode_simplejpeg

            return decode_simplejpeg.load
        return decode.load

    def vectors(self, module):
        if "OpenVINO" in self.job.variant:
            return self.openvino(module)
        module.to(self.precision, memory_format=torch.channels_last)
        if "frozen" in self.job.variant:
            import torch._inductor.config as inductor

            inductor.freezing = True
        return torch.compile(module) if "compiled" in self.job.variant else module

    def openvino(self, module):
        import openvino

        side = self.config["image_size"]
        example = (torch.zeros(self.batch, 3, side, side), self.ids.repeat(self.batch, 1))
        with torch.no_grad():
            converted = openvino.convert_model(module, example_input=example)
        names = {"float32": "f32", "bfloat16": "bf16"}
        compiled = openvino.Core().compile_model(converted, "CPU", {
            "INFERENCE_NUM_THREADS": self.job.threads, "INFERENCE_PRECISION_HINT": names[self.job.precision], "PERFORMANCE_HINT": "LATENCY",
        })
        self.precision = torch.float32  # of the inputs
        return lambda pixels, ids: torch.from_numpy(compiled((pixels.numpy(), ids.numpy()))[0])

    @torch.no_grad()
    def run(self):
        size, found = self.config["image_size"], []
        for begin in range(0, len(self.files), self.batch):
            files = self.files[begin : begin + self.batch]
            pixels = torch.stack(list(self.pool.map(lambda raw: self.load(raw, size), files)))
            if "OpenVINO" not in self.job.variant:
                pixels = pixels.to(self.precision, memory_format=torch.channels_last)
            found.append(self.embed(pixels, self.ids.repeat(len(files), 1)).float())
        self.found = torch.cat(found)

    def check(self):
        ours = torch.from_numpy(self.job.floats("encoded.f32", self.config["embed_dim"])).view(self.found.shape)
        return {"least_cosine": (ours * self.found).sum(-1).min()}


common.serve(Encode)
