"""GRIT-VLP's grouping phase as a straightforward PyTorch program: full softmax matrices, visited pairs zeroed."""

import numpy

import common

TEMPERATURE = 0.07
TIE = 1e-6


class Check:
    """What every program of a walk is asked at the end. A subclass has the job and the order that it found."""

    def check(self):
        """Follows pairstream's order, and counts steps that pass over a pair that is more similar."""
        dim, ours = self.job.option("dim"), self.job.integers("order.i32", 1)[:, 0]
        v, t = (self.job.halves(name, dim).astype("float64") for name in ("images.f16", "texts.f16"))
        similarities = v @ t.T
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


class Walk(Check):
    def __init__(self, job):
        import torch  # not by the program that needs numpy alone

        torch.set_num_threads(job.threads)
        self.job, self.torch = job, torch
        self.v = torch.from_numpy(job.halves("images.f16", job.option("dim")))
        self.t = torch.from_numpy(job.halves("texts.f16", job.option("dim")))

    def run(self):
        with self.torch.no_grad():
            self.walk()

    def walk(self):
        similarities = self.v @ self.t.T / TEMPERATURE
        i2t, t2i = self.torch.softmax(similarities, 1), self.torch.softmax(similarities.T, 1)
        current, self.order = 0, [0]
        i2t[:, 0] = t2i[:, 0] = 0
        for step in range(1, len(self.v)):
            row = i2t[current] if step % 2 else t2i[current]
            after = int(row.argmax())
            i2t[:, after] = t2i[:, after] = 0  # nobody comes here again,
            (i2t if step % 2 else t2i)[after] = 0  # and of its two sides only one is left from
            self.order.append(after)
            current = after


if __name__ == "__main__":
    common.serve(Walk)
