// k-means by FAISS.
#include <faiss/Clustering.h>
#include <faiss/IndexFlat.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "faiss.h"
#include "guarded.h"

void fs_free_text(char* text) { std::free(text); }

char* fs_kmeans(int64_t n, int32_t d, const float* x, int32_t k, int32_t iterations, int32_t seed, float* centroids,
                double* inertia) {
  return guarded([&] {
    omp_set_num_threads(1);  // a team for every thread of Go would be many
    faiss::ClusteringParameters p;
    p.niter = iterations;
    p.seed = seed;
    p.min_points_per_centroid = 1;
    p.max_points_per_centroid = static_cast<int>(std::min<int64_t>(n, std::numeric_limits<int32_t>::max()));  // no sampling
    faiss::Clustering c(d, k, p);
    faiss::IndexFlatL2 index(d);
    c.train(n, x, index);
    std::copy(c.centroids.begin(), c.centroids.end(), centroids);
    *inertia = c.iteration_stats.empty() ? 0 : c.iteration_stats.back().obj;
  });
}
