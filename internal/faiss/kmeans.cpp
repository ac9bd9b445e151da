// k-means by FAISS.
#include <faiss/Clustering.h>
#include <faiss/IndexFlat.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "faiss.h"

namespace {

char* text(const char* what) {
  char* copy = strdup(what);
  return copy ? copy : strdup("out of memory");
}

// guarded turns an exception into text.
template <class F>
char* guarded(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const std::bad_alloc&) {
    return text("out of memory");
  } catch (const std::exception& e) {
    return text(e.what());
  } catch (...) {
    return text("unknown exception");
  }
}

}  // namespace

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
