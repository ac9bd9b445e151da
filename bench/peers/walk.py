"""GRIT-VLP's grouping phase as a straightforward PyTorch program: full softmax matrices, visited pairs zeroed."""

import numpy
import torch

import common

TEMPERATURE = 0.07
TIE = 1e-6


class Walk:
    def __init__(self, job):
        torch.set_num_threads(job.threads)
        self.job = job
        self.v = torch.from_numpy(job.halves("images.f16", job.option("dim")))
        self.t = torch.from_numpy(job.halves("texts.f16", job.option("dim")))

    @torch.no_grad()
    def run(self):
        similarities = self.v @ self.t.T / TEMPERATURE
        i2t, t2i = torch.softmax(similarities, 1), torch.softmax(similarities.T, 1)
        current, self.order = 0, [0]
        i2t[:, 0] = t2i[:, 0] = 0
        for step in range(1, len(self.v)):
            row = i2t[current] if step % 2 else t2i[current]
            after = int(row.argmax())
            i2t[:, after] = t2i[:, after] = 0  # nobody comes here again,
            (i2t if step % 2 else t2i)[after] = 0  # and of its two sides only one is left from
            self.order.append(after)
            current = after

    def check(self):
        """Follows pairstream's order, and counts steps that pass over a pair that is more similar."""
        ours = self.job.integers("order.i32", 1)[:, 0]
        similarities = (self.v.double() @ self.t.double().T).numpy()
        left = numpy.ones(len(ours), dtype=bool)
        left[ours[0]] = False
        not_greedy = 0
        for step in range(1, len(ours)):
            current, after = ours[step - 1], ours[step]
            row = similarities[current] if step % 2 else similarities[:, current]
            if not left[after] or row[after] < row[left].max() - TIE:
                not_greedy += 1
            left[after] = False
        differs = numpy.nonzero(ours != numpy.array(self.order))[0]
        return {"not_greedy": not_greedy, "same_steps": int(differs[0]) if len(differs) else len(ours)}


common.serve(Walk)
