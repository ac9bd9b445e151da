"""Live search in FAISS's navigable graph."""

import faiss

import common
from live import Live


class HNSW(Live):
    def build(self, texts):
        self.index = faiss.IndexHNSWFlat(texts.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = 80
        self.index.add(texts)

    def efforts(self):
        effort = self.job.option("k")
        while effort < 5000:
            yield effort
            effort = int(effort * 1.3)
        yield effort

    def set_effort(self, effort):
        self.index.hnsw.efSearch = effort


common.serve(HNSW)
