// k-means, and inverted lists whose entries refer to float16 rows kept elsewhere.
#include <faiss/Clustering.h>
#include <faiss/IndexFlat.h>
#include <faiss/IndexIVF.h>
#include <faiss/utils/Heap.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "centroids.h"
#include "faiss.h"

namespace {

std::atomic<int64_t> live_handles{0};

// Handle is a base of everything that Go holds by pointer.
struct Handle {
  Handle() { live_handles.fetch_add(1, std::memory_order_relaxed); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { live_handles.fetch_sub(1, std::memory_order_relaxed); }
};

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

const uint16_t* row(const fs_rows& rows, int64_t i) { return rows.data + i * rows.d; }

// one_thread keeps OpenMP from making a team per calling thread: Go calls from many threads, and spreads work itself.
void one_thread() { omp_set_num_threads(1); }

// RowScanner compares a query with float16 rows: an entry of a list is an id, and the row with that number is compared.
struct RowScanner : faiss::InvertedListScanner {
  explicit RowScanner(const fs_rows& rows) : rows_(rows) { keep_max = true; }
  void set_query(const float* q) override { query_ = q; }
  void set_list(idx_t list, float) override { list_no = list; }
  float distance_to_code(const uint8_t*) const override { throw std::logic_error("entries have no codes"); }

  size_t scan_codes(size_t n, const uint8_t*, const idx_t* ids, float* scores, idx_t* labels, size_t k) const override {
    size_t updates = 0;
    for (size_t i = 0; i < n; i++) {
      if (i + 4 < n) __builtin_prefetch(row(rows_, ids[i + 4]));
      const float s = rows_.similarity(query_, row(rows_, ids[i]), rows_.d);
      if (s <= scores[0]) continue;
      faiss::minheap_replace_top(k, scores, labels, s, ids[i]);
      updates++;
    }
    return updates;
  }

 private:
  const fs_rows rows_;
  const float* query_ = nullptr;
};

// RowIVF is a FAISS inverted file whose lists hold ids, and one unused byte of code as FAISS wants some. It is searched
// with a scanner made for the rows at hand.
struct RowIVF : faiss::IndexIVF {
  RowIVF(faiss::Index* quantizer, int d, int lists)
      : IndexIVF(quantizer, d, lists, /*code_size=*/1, faiss::METRIC_INNER_PRODUCT) {
    is_trained = true;
  }
  void encode_vectors(idx_t, const float*, const idx_t*, uint8_t*, bool) const override {}
};

void begin_heap(int k, float* scores, int64_t* ids) {
  std::fill(scores, scores + k, -std::numeric_limits<float>::infinity());
  std::fill(ids, ids + k, int64_t{-1});
}

void end_heap(int k, float* scores, int64_t* ids) { faiss::minheap_reorder(k, scores, ids); }

}  // namespace

struct fs_ivf : Handle {
  using Quantizer = std::shared_ptr<Centroids>;
  explicit fs_ivf(Quantizer q) : quantizer(std::move(q)), index(quantizer.get(), quantizer->d, quantizer->ntotal) {}
  const Quantizer quantizer;  // of all lists that were made from it
  RowIVF index;
};

void fs_free_text(char* text) { std::free(text); }
int64_t fs_live_handles(void) { return live_handles.load(std::memory_order_relaxed); }

char* fs_kmeans(int64_t n, int32_t d, const float* x, int32_t k, int32_t iterations, int32_t seed, float* centroids,
                double* inertia) {
  return guarded([&] {
    one_thread();
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

char* fs_ivf_new(fs_rows centroids, const float* exact, fs_ivf** out) {
  return guarded([&] {
    one_thread();
    *out = new fs_ivf(std::make_shared<Centroids>(centroids.d, centroids.n, exact, centroids.data, centroids.similarity));
  });
}
char* fs_ivf_like(const fs_ivf* h, fs_ivf** out) {
  return guarded([&] { *out = new fs_ivf(h->quantizer); });
}
void fs_ivf_free(fs_ivf* h) { delete h; }

char* fs_ivf_add(fs_ivf* h, int64_t n, const int64_t* ids, const int64_t* lists) {
  return guarded([&] {
    static const uint8_t no_code = 0;
    for (int64_t i = 0; i < n; i++) h->index.invlists->add_entries(lists[i], 1, &ids[i], &no_code);
    h->index.ntotal += n;
  });
}

char* fs_ivf_merge(fs_ivf* h, const fs_ivf* other) {
  return guarded([&] {
    if (h->quantizer != other->quantizer) throw std::invalid_argument("the lists have different centroids");
    for (size_t l = 0; l < other->index.nlist; l++) {
      const size_t n = other->index.invlists->list_size(l);
      faiss::InvertedLists::ScopedIds ids(other->index.invlists, l);
      faiss::InvertedLists::ScopedCodes codes(other->index.invlists, l);
      if (n) h->index.invlists->add_entries(l, n, ids.get(), codes.get());
    }
    h->index.ntotal += other->index.ntotal;
  });
}

char* fs_ivf_probe(const fs_ivf* h, const float* q, int32_t probes, int64_t* lists) {
  return guarded([&] {
    h->quantizer->near(q, probes, lists);
  });
}

char* fs_ivf_search(const fs_ivf* h, fs_rows rows, const float* q, int32_t n, const int64_t* lists, int32_t k,
                    float* scores, int64_t* ids) {
  return guarded([&] {
    RowScanner scanner(rows);
    scanner.set_query(q);
    begin_heap(k, scores, ids);
    for (int32_t i = 0; i < n; i++) {
      if (lists[i] < 0 || static_cast<size_t>(lists[i]) >= h->index.nlist) throw std::out_of_range("no such list");
      faiss::InvertedLists::ScopedIds entries(h->index.invlists, lists[i]);
      scanner.set_list(lists[i], 0);
      scanner.scan_codes(h->index.invlists->list_size(lists[i]), nullptr, entries.get(), scores, ids, k);
    }
    end_heap(k, scores, ids);
  });
}

char* fs_scan(fs_rows rows, int64_t from, const float* q, int32_t k, float* scores, int64_t* ids) {
  return guarded([&] {
    begin_heap(k, scores, ids);
    for (int64_t i = from; i < rows.n; i++) {
      const float s = rows.similarity(q, row(rows, i), rows.d);
      if (s > scores[0]) faiss::minheap_replace_top(k, scores, ids, s, i);
    }
    end_heap(k, scores, ids);
  });
}
