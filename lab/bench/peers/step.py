"""GRIT-VLP's training step in PyTorch: consistency ITC, ITM with the hardest in the batch, MLM, AdamW; float32."""

import json

import torch
from torch.nn import functional as F

import common
from albef import ALBEF, read_safetensors

COMPARED = 5


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


class Step:
    def __init__(self, job):
        torch.set_num_threads(job.threads)
        with open(job.path("step.json")) as f:
            shared = json.load(f)
        c = shared["config"]
        self.model = ALBEF(c)
        self.model.load_state_dict(read_safetensors(job.path("step.safetensors")))
        self.ids = padded(shared["ids"], shared["pad"])
        self.masked = padded(shared["masked"], shared["pad"])
        self.labels = padded(shared["labels"], -100)
        lengths = torch.tensor([len(row) for row in shared["ids"]])
        attention = torch.arange(self.ids.shape[1])[None] < lengths[:, None]
        self.mask = (1.0 - attention.float())[:, None, None, :] * -10000.0
        side = c["image_size"]
        self.pixels = torch.from_numpy(job.floats("pixels.f32", 3 * side * side)).view(-1, 3, side, side)
        self.rates, self.weight = shared["rates"], shared["lambda"]
        decayed, kept = [], []
        for name, p in self.model.named_parameters():
            (kept if p.dim() == 1 or name.endswith("bias") else decayed).append(p)
        current = int(torch.__version__.split(".")[0]) > 1
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": shared["decay"]}, {"params": kept, "weight_decay": 0.0}],
            lr=self.rates[0], betas=(0.9, 0.999), eps=1e-8, **({"fused": True} if current else {}),
        )
        self.model.to(memory_format=torch.channels_last)
        self.pixels = self.pixels.contiguous(memory_format=torch.channels_last)
        self.marked = (self.labels != -100).nonzero(as_tuple=True)
        self.words = self.labels[self.marked]
        if job.variant == "compiled":
            self.losses_of = torch.compile(self.losses_of)
        self.steps, self.done = job.option("steps"), 0
        self.losses = {"itc": [], "itm": [], "mlm": []}

    def losses_of(self):
        m, mask = self.model, self.mask
        bert = m.text_encoder.bert
        images = m.visual_encoder(self.pixels)
        texts = bert.alone(self.ids, mask)
        v, t = m.features(images, texts)
        with torch.no_grad():
            m.temp.clamp_(0.001, 0.5)
        i2t, t2i = v @ t.detach().T / m.temp, t @ v.detach().T / m.temp
        n = len(v)
        hard = torch.eye(n)

        def contrast(similarities, other):
            target = hard + self.weight * other.detach().softmax(1)
            return -(similarities.log_softmax(1) * target).sum(1).mean()

        itc = (contrast(i2t, t2i) + contrast(t2i, i2t)) / 2
        with torch.no_grad():
            own = torch.eye(n, dtype=torch.bool)
            image_of = t2i.masked_fill(own, float("-inf")).argmax(1)
            text_of = i2t.masked_fill(own, float("-inf")).argmax(1)
        fused = bert.fuse(texts, mask, images)
        others = bert.fuse(
            torch.cat((texts, texts[text_of])), torch.cat((mask, mask[text_of])), torch.cat((images[image_of], images))
        )
        logits = m.itm_head(torch.cat((fused[:, 0], others[:, 0])))
        itm = F.cross_entropy(logits, torch.cat((torch.ones(n), torch.zeros(2 * n))).long())
        words = bert.fuse(bert.alone(self.masked, mask), mask, images)[self.marked]
        scores = m.text_encoder.cls["predictions"](words, bert.embeddings.word_embeddings.weight)
        mlm = F.cross_entropy(scores, self.words)
        return {"itc": itc, "itm": itm, "mlm": mlm}

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates[min(self.done, len(self.rates) - 1)]
        self.optimizer.zero_grad()
        losses = self.losses_of()
        sum(losses.values()).backward()
        self.optimizer.step()
        if self.done < COMPARED:
            for name, loss in losses.items():
                self.losses[name].append(loss.item())
        self.done += 1

    def run(self):
        for _ in range(self.steps):
            self.step()

    def check(self):
        while self.done < COMPARED:
            self.step()
        return self.losses


common.serve(Step)
