"""Exact neighbours of a group with FAISS: three exhaustive searches, as in GPN-S's paper.

Every turn makes the searches of another part of the queries, and counts its time as many times as there are parts: FAISS
takes its queries in blocks, one like the other.
"""

import time

import faiss
import numpy

import common

K, K1, K2 = 10, 5, 500
TIE = 1e-6


class Group:
    def __init__(self, job):
        faiss.omp_set_num_threads(job.threads)
        self.job = job
        dim = job.option("dim")
        self.v = job.halves("images.f16", dim)
        self.t = job.halves("texts.f16", dim)
        self.parts = numpy.array_split(numpy.arange(len(self.v)), job.option("parts"))
        self.turn, self.found = 0, {}
        self.images, self.texts = faiss.IndexFlatIP(dim), faiss.IndexFlatIP(dim)
        self.images.add(self.v)
        self.texts.add(self.t)

    def run(self):
        cpu, started = common.cpu_seconds(), time.perf_counter()
        rows = self.parts[self.turn % len(self.parts)]
        self.found[self.turn % len(self.parts)] = (
            rows,
            self.texts.search(self.v[rows], K),
            self.images.search(self.v[rows], K1 + 1),  # an image finds itself
            self.images.search(self.t[rows], min(K2, len(self.v))),
        )
        self.turn += 1
        parts = len(self.parts)
        return {"seconds": parts * (time.perf_counter() - started), "cpu_seconds": parts * (common.cpu_seconds() - cpu)}

    def check(self):
        """Counts the entries of pairstream's results that FAISS does not have and that are not ties with its last."""
        ours = (self.job.integers("v2t.i32", K), self.job.integers("v2v.i32", K1), self.job.integers("se.i32", K1))
        totals = {"v2t_wrong": 0, "v2v_wrong": 0, "se_wrong": 0, "ties": 0, "rows": 0}
        for part in self.found.values():
            for name, n in self.compare(*part, *ours).items():
                totals[name] += n
        return totals

    def compare(self, rows, texts, images, tests, v2t, v2v, se):
        ties = 0

        def score(a, b, i, j):
            return numpy.einsum("id,id->i", a[i].astype("float64"), b[j].astype("float64"))

        def members(ours, theirs, b):
            """Entries of ours that are no neighbours: not in theirs, and worse than the worst of theirs."""
            wrong = tied = 0
            for column in range(ours.shape[1]):
                j = ours[rows, column]
                missing = numpy.nonzero(~(theirs[1] == j[:, None]).any(axis=1))[0]
                short = theirs[0][missing].min(axis=1, initial=2) - score(self.v, b, rows[missing], j[missing])
                wrong += int((short > TIE).sum())
                tied += int((short <= TIE).sum())
            return wrong, tied

        v2t_wrong, tied = members(v2t, texts, self.t)
        v2v_wrong, tied_too = members(v2v, images, self.v)
        ties += tied + tied_too
        v2v_wrong += int((v2v[rows] == rows[:, None]).sum())
        worst, se_wrong = tests[0].min(axis=1), 0
        for column in range(K1):
            j = v2v[rows, column]
            margin = score(self.t, self.v, rows, j) - worst  # of image j among the nearest of text i
            ours = (se[rows] == j[:, None]).any(axis=1)
            differs = ours != (tests[1] == j[:, None]).any(axis=1)
            se_wrong += int((differs & (numpy.abs(margin) > TIE)).sum())
            ties += int((differs & (numpy.abs(margin) <= TIE)).sum())
        return {"v2t_wrong": v2t_wrong, "v2v_wrong": v2v_wrong, "se_wrong": se_wrong, "ties": ties, "rows": len(rows)}


common.serve(Group)
