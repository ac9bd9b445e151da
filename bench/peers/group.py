"""Exact neighbours of a group with FAISS: three exhaustive searches, as in GPN-S's paper."""

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

    def run(self):
        images, texts = faiss.IndexFlatIP(self.v.shape[1]), faiss.IndexFlatIP(self.t.shape[1])
        images.add(self.v)
        texts.add(self.t)
        self.v2t = texts.search(self.v, K)
        self.v2v = images.search(self.v, K1 + 1)  # an image finds itself
        self.t2v = images.search(self.t, min(K2, len(self.v)))

    def check(self):
        """Counts the entries of pairstream's results that FAISS does not have and that are not ties with its last."""
        rows = numpy.arange(len(self.v))
        worst_t2v = self.t2v[0].min(axis=1)
        ties = 0

        def score(a, b, i, j):
            return numpy.einsum("id,id->i", a[i].astype("float64"), b[j].astype("float64"))

        def compare(ours, theirs, scores, a, b):
            """Entries of ours that are no neighbours: not in theirs, and worse than the worst of theirs."""
            wrong = tied = 0
            for column in range(ours.shape[1]):
                j = ours[:, column]
                missing = rows[~(theirs == j[:, None]).any(axis=1)]
                short = scores[missing].min(axis=1) - score(a, b, missing, j[missing])
                wrong += int((short > TIE).sum())
                tied += int((short <= TIE).sum())
            return wrong, tied

        v2t, v2v = self.job.integers("v2t.i32", K), self.job.integers("v2v.i32", K1)
        se = self.job.integers("se.i32", K1)
        v2t_wrong, tied = compare(v2t, self.v2t[1], self.v2t[0], self.v, self.t)
        ties += tied
        v2v_wrong, tied = compare(v2v, self.v2v[1], self.v2v[0], self.v, self.v)
        ties += tied
        v2v_wrong += int((v2v == rows[:, None]).sum())
        se_wrong = 0
        for column in range(K1):
            j = v2v[:, column]
            margin = score(self.t, self.v, rows, j) - worst_t2v  # of image j among the nearest of text i
            ours = (se == j[:, None]).any(axis=1)
            differs = ours != (self.t2v[1] == j[:, None]).any(axis=1)
            se_wrong += int((differs & (numpy.abs(margin) > TIE)).sum())
            ties += int((differs & (numpy.abs(margin) <= TIE)).sum())
        return {"v2t_wrong": v2t_wrong, "v2v_wrong": v2v_wrong, "se_wrong": se_wrong, "ties": ties, "se": int((se >= 0).sum())}


common.serve(Group)
