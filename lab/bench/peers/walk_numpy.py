"""GRIT-VLP's grouping phase in numpy: one product, and a mask of the pairs that were visited."""

import numpy

import common
from walk import Check


class Walk(Check):
    def __init__(self, job):
        self.job = job
        self.v, self.t = (job.halves(name, job.option("dim")) for name in ("images.f16", "texts.f16"))

    def run(self):
        texts_of = self.v @ self.t.T
        images_of = numpy.ascontiguousarray(texts_of.T)
        n, current = len(self.v), 0
        gone, scores = numpy.zeros(n, "float32"), numpy.empty(n, "float32")
        gone[0], self.order = -numpy.inf, [0]
        for step in range(1, n):
            numpy.add((texts_of if step % 2 else images_of)[current], gone, out=scores)
            current = int(scores.argmax())
            gone[current] = -numpy.inf
            self.order.append(current)


if __name__ == "__main__":
    common.serve(Walk)
