"""Live search in FAISS's inverted lists of plain vectors."""

import faiss

import common
from live import Live


class IVF(Live):
    def build(self, texts):
        lists = int(4 * len(texts) ** 0.5)
        quantizer = faiss.IndexFlatIP(texts.shape[1])
        self.index = faiss.IndexIVFFlat(quantizer, texts.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
        self.index.cp.niter = 10
        self.index.cp.max_points_per_centroid = 40
        self.quantizer = quantizer  # the index does not own it
        self.index.train(texts)
        self.index.add(texts)

    def efforts(self):
        probes = 1
        while probes < self.index.nlist:
            yield probes
            probes = max(probes + 1, int(probes * 1.2))
        yield self.index.nlist

    def set_effort(self, probes):
        self.index.nprobe = probes


common.serve(IVF)
