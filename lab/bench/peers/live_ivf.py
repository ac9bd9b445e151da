"""Live search in FAISS's inverted lists: of plain vectors, or (variant sq8) of 8-bit codes whose best are ranked by the vectors."""

import faiss

import common
from live import Live


class IVF(Live):
    def build(self, texts):
        dim, lists = texts.shape[1], int(4 * len(texts) ** 0.5)
        self.quantizer = faiss.IndexFlatIP(dim)  # the index does not own it
        if self.job.variant == "sq8":
            self.lists = faiss.IndexIVFScalarQuantizer(self.quantizer, dim, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
            self.index = faiss.IndexRefineFlat(self.lists)
            self.index.k_factor = 4
        else:
            self.lists = self.index = faiss.IndexIVFFlat(self.quantizer, dim, lists, faiss.METRIC_INNER_PRODUCT)
        self.lists.cp.niter = 10
        self.lists.cp.max_points_per_centroid = 40
        self.index.train(texts)
        self.index.add(texts)

    def efforts(self):
        probes = 1
        while probes < self.lists.nlist:
            yield probes
            probes = max(probes + 1, int(probes * 1.2))
        yield self.lists.nlist

    def set_effort(self, probes):
        self.lists.nprobe = probes


common.serve(IVF)
