// Inverted files of FAISS, written to be read by whoever uses it.
#include <faiss/IndexFlat.h>
#include <faiss/IndexIVF.h>
#include <faiss/IndexScalarQuantizer.h>
#include <faiss/index_io.h>

#include <memory>
#include <vector>

#include "faiss.h"
#include "guarded.h"

struct fs_ivf {
  faiss::IndexFlatIP centroids;
  faiss::IndexIVFScalarQuantizer index;
  fs_ivf(int32_t d, int32_t lists)
      : centroids(d),
        index(&centroids, d, lists, faiss::ScalarQuantizer::QT_fp16, faiss::METRIC_INNER_PRODUCT, /*encode_residual=*/false) {}
};

char* fs_ivf_new(int32_t d, int32_t lists, const float* centroids, int32_t probes, fs_ivf** ivf) {
  return guarded([&] {
    auto made = std::make_unique<fs_ivf>(d, lists);
    made->centroids.add(lists, centroids);
    made->index.is_trained = true;  // the centroids are there, and float16 needs no training
    made->index.nprobe = probes;
    *ivf = made.release();
  });
}

char* fs_ivf_add(fs_ivf* ivf, int32_t list, int64_t n, const float* x, const int64_t* ids) {
  return guarded([&] {
    const std::vector<faiss::Index::idx_t> to(n, list);
    ivf->index.add_core(n, x, reinterpret_cast<const faiss::Index::idx_t*>(ids), to.data());
  });
}

char* fs_ivf_write(const fs_ivf* ivf, const char* path) {
  return guarded([&] { faiss::write_index(&ivf->index, path); });
}

void fs_ivf_free(fs_ivf* ivf) { delete ivf; }

char* fs_search(const char* path, int64_t n, const float* x, int32_t k, float* scores, int64_t* ids) {
  return guarded([&] {
    const std::unique_ptr<faiss::Index> index(faiss::read_index(path));
    index->search(n, x, k, scores, reinterpret_cast<faiss::Index::idx_t*>(ids));
  });
}
