"""K-means with FAISS, over all rows."""

import faiss

import common


class KMeans:
    def __init__(self, job):
        faiss.omp_set_num_threads(job.threads)
        self.x = job.halves("images.f16", job.option("dim"))
        self.clusters, self.iterations = job.option("clusters"), job.option("iterations")

    def run(self):
        self.kmeans = faiss.Kmeans(
            self.x.shape[1], self.clusters, niter=self.iterations, seed=1,
            min_points_per_centroid=1, max_points_per_centroid=len(self.x),
        )
        self.kmeans.train(self.x)

    def check(self):
        distances, _ = self.kmeans.index.search(self.x, 1)
        return {"peer_inertia": float(distances.astype("float64").sum())}


common.serve(KMeans)
