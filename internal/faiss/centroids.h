// The centroids of inverted lists, and a navigable graph over them where there are many.
#pragma once
#include <faiss/IndexHNSW.h>
#include <faiss/impl/AuxIndexStructures.h>
#include <faiss/impl/DistanceComputer.h>
#include <faiss/impl/FaissException.h>
#include <faiss/utils/Heap.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "faiss.h"

namespace {

// product is the inner product of two float32 rows. FAISS's own is scalar in builds for any processor.
inline float product(const float* a, const float* b, int d) {
  typedef float f32x4 __attribute__((vector_size(16)));
  f32x4 s[4] = {};
  int i = 0;
  for (; i + 16 <= d; i += 16)
    for (int j = 0; j < 4; j++) {
      f32x4 x, y;
      std::memcpy(&x, a + i + 4 * j, sizeof x);
      std::memcpy(&y, b + i + 4 * j, sizeof y);
      s[j] += x * y;
    }
  const f32x4 sum = (s[0] + s[1]) + (s[2] + s[3]);
  float out = (sum[0] + sum[2]) + (sum[1] + sum[3]);
  for (; i < d; i++) out += a[i] * b[i];
  return out;
}

// Centroids is a FAISS index of a list's centroids, by inner product. The graph compares a query with their float16 rows,
// by the caller's function; a ranking of all lists compares it with the float32 rows.
struct Centroids : faiss::Index {
  static constexpr int64_t GRAPH = 256;  // fewer centroids are compared one by one
  static constexpr int LINKS = 16, BUILD_EFFORT = 80, SEARCH_EFFORT = 64;

  Centroids(int d, int64_t n, const float* rows, const uint16_t* halves, fs_similarity similarity)
      : Index(d, faiss::METRIC_L2), rows_(rows, rows + n * d), halves_(halves, halves + n * d), similarity_(similarity) {
    if (n >= GRAPH) {
      graph_ = std::make_unique<faiss::IndexHNSW>(this, LINKS);
      graph_->hnsw.efConstruction = BUILD_EFFORT;
      graph_->hnsw.efSearch = SEARCH_EFFORT;
      graph_->add(n, rows_.data());
    }
    ntotal = n;
  }

  // near writes the lists whose centroids have the largest inner products with the query, best first, then -1. They may be
  // other lists that are about as near when they are a small share of all.
  void near(const float* q, int probes, int64_t* lists) const {
    if (graph_ && 8 * static_cast<int64_t>(probes) <= ntotal) {
      const int wider = 2 * probes;  // the last ones of what the graph finds are the least sure
      std::vector<float> found(wider);
      std::vector<idx_t> ids(wider);
      faiss::VisitedTable visited(static_cast<int>(ntotal));
      Distance to(*this);
      to.set_query(q);
      faiss::maxheap_heapify(wider, found.data(), ids.data());
      graph_->hnsw.search(to, wider, ids.data(), found.data(), visited);
      faiss::maxheap_reorder(wider, found.data(), ids.data());
      std::copy_n(ids.begin(), probes, lists);
      return;
    }
    std::vector<float> distances(probes);
    faiss::minheap_heapify(probes, distances.data(), lists);
    for (int64_t i = 0; i < ntotal; i++) {
      const float s = product(q, &rows_[i * d], d);
      if (s > distances[0]) faiss::minheap_replace_top(probes, distances.data(), lists, s, i);
    }
    faiss::minheap_reorder(probes, distances.data(), lists);
  }

  // Distance is the inner product with its sign turned, as the graph looks for what is small.
  struct Distance : faiss::DistanceComputer {
    explicit Distance(const Centroids& c) : c_(c) {}
    void set_query(const float* q) override { query_ = q; }
    float operator()(idx_t i) override { return -c_.similarity_(query_, &c_.halves_[i * c_.d], c_.d); }
    float symmetric_dis(idx_t i, idx_t j) override {
      return -c_.similarity_(&c_.rows_[i * c_.d], &c_.halves_[j * c_.d], c_.d);
    }

   private:
    const Centroids& c_;
    const float* query_ = nullptr;
  };

  faiss::DistanceComputer* get_distance_computer() const override { return new Distance(*this); }

  // The graph adds the rows, which are here already.
  void add(idx_t n, const float*) override { ntotal += n; }
  void search(idx_t, const float*, idx_t, float*, idx_t*, const faiss::SearchParameters*) const override {
    FAISS_THROW_MSG("centroids are ranked by near");
  }
  void reset() override { FAISS_THROW_MSG("centroids stay"); }

 private:
  const std::vector<float> rows_;
  const std::vector<uint16_t> halves_;
  const fs_similarity similarity_;
  std::unique_ptr<faiss::IndexHNSW> graph_;
};

}  // namespace
