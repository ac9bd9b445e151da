// Exact V2T_k, V2V_k1 and SE = V2V_k1 n T2V_k2 of a group, tile by tile. See neighbors.go for the guarantees.
#include "guard.h"
#include "lists.h"

namespace ps {
namespace {

constexpr int BLOCK = 2048;
constexpr size_t STAGED = 1 << 14;  // hits that a worker gathers before it takes a block's lock

struct Staged {
  int32_t row, column, value;
};

// Scratch is what one worker needs for a tile.
struct Scratch {
  Buffer<int16_t> rows;
  Buffer<int32_t> panels;
  std::vector<Staged> for_rows, for_columns;
  std::vector<int32_t> row_min, col_min, counts;

  void size(int d, int k1) {
    if (rows.p) return;
    const size_t width = 2 * pairs_of(d);
    rows.reset(width * round_up(BLOCK, MR));
    panels.reset(width / 2 * round_up(BLOCK, NR));
    row_min.resize(round_up(BLOCK, MR));
    col_min.resize(round_up(BLOCK, NR));
    counts.resize(static_cast<size_t>(BLOCK) * k1);
  }
};

}  // namespace
}  // namespace ps

using namespace ps;

struct ps_neighbors : Handle {
  ps_neighbors(ps_rows v, ps_rows t, ps_neighbor_params p)
      : v_(rows_of(v)), t_(rows_of(t)), p_(p), scratch_(p.workers), locks_((v.n + BLOCK - 1) / BLOCK) {}

  void norms(int64_t block) {
    double v = 0, t = 0;
    measure_norm(v_, block * BLOCK, end(block), v);
    measure_norm(t_, block * BLOCK, end(block), t);
    std::lock_guard<std::mutex> hold(measured_);
    fixed_v_.norm = std::max(fixed_v_.norm, v);
    fixed_t_.norm = std::max(fixed_t_.norm, t);
  }

  void residuals(int64_t block) {
    const float sv = scale_for(fixed_v_.norm), st = scale_for(fixed_t_.norm);
    double v = 0, t = 0;
    measure_residual(v_, block * BLOCK, end(block), sv, v);
    measure_residual(t_, block * BLOCK, end(block), st, t);
    std::lock_guard<std::mutex> hold(measured_);
    fixed_v_.residual = std::max(fixed_v_.residual, v);
    fixed_t_.residual = std::max(fixed_t_.residual, t);
  }

  void begin_images() {
    fixed_v_.scale = scale_for(fixed_v_.norm);
    fixed_t_.scale = scale_for(fixed_t_.norm);
    lists_ = std::make_unique<Lists>(v_.n, p_.k1, Scorer{v_, v_}, unit(fixed_v_), error_bound(fixed_v_, fixed_v_));
    v2v_.reset(v_.n * p_.k1);
    threshold_.reset(v_.n * p_.k1);
  }

  // images offers every image of block j to those of block i, and the other way round: V V^T is symmetric.
  void images(int worker, int64_t i, int64_t j) {
    Scratch& s = prepare(worker, i, j, v_, fixed_v_.scale);
    const int32_t i0 = i * BLOCK, j0 = j * BLOCK;
    const int n = end(i) - i0, m = end(j) - j0;
    load_floors(s.row_min, i, n);
    if (i == j)
      std::fill(s.col_min.begin(), s.col_min.end(), HIGHEST);
    else
      load_floors(s.col_min, j, m);
    sweep(s.rows.p, n, s.panels.p, m, pairs_of(v_.d), nullptr, s.row_min.data(), s.col_min.data(),
          [&](int r, int c, int32_t value) {
            if (r >= n || c >= m || same_image(i0 + r, j0 + c)) return;
            if (value >= s.row_min[r]) s.for_rows.push_back({i0 + r, j0 + c, value});
            if (value >= s.col_min[c]) s.for_columns.push_back({j0 + c, i0 + r, value});
            if (s.for_rows.size() >= STAGED) flush(s.for_rows, i), load_floors(s.row_min, i, n);
            if (s.for_columns.size() >= STAGED) flush(s.for_columns, j), load_floors(s.col_min, j, m);
          });
    flush(s.for_rows, i);
    flush(s.for_columns, j);
  }

  void end_images(int64_t block, int32_t* v2v) {
    for (int64_t r = block * BLOCK; r < end(block); r++) {
      lists_->best(r, r, v2v + r * p_.k1);
      for (int m = 0; m < p_.k1; m++) {
        const int32_t j = v2v_[r * p_.k1 + m] = v2v[r * p_.k1 + m];
        threshold_[r * p_.k1 + m] = j < 0 ? 0 : dot(v_, j, t_, r);
      }
    }
  }

  void begin_texts() {
    lists_.reset();
    unit_ = static_cast<double>(fixed_v_.scale) * fixed_t_.scale;
    bound_ = error_bound(fixed_v_, fixed_t_);
    lists_ = std::make_unique<Lists>(v_.n, p_.k, Scorer{v_, t_}, unit_, bound_);
    above_ = std::vector<std::atomic<int32_t>>(v_.n * p_.k1);
    lowest_ = std::vector<std::atomic<int32_t>>(v_.n);
    for (int64_t i = 0; i < v_.n; i++) update_lowest(i);
  }

  // texts offers the texts of block j to the images of block i, and counts, for each text of block j and each image
  // that might be in its SE, the images of block i that the text finds better.
  void texts(int worker, int64_t i, int64_t j) {
    Scratch& s = prepare(worker, i, j, t_, fixed_t_.scale);
    const int32_t i0 = i * BLOCK, j0 = j * BLOCK;
    const int n = end(i) - i0, m = end(j) - j0;
    load_floors(s.row_min, i, n);
    std::fill(s.col_min.begin(), s.col_min.end(), HIGHEST);
    for (int c = 0; c < m; c++) s.col_min[c] = lowest_[j0 + c].load(std::memory_order_relaxed);
    std::fill(s.counts.begin(), s.counts.end(), 0);
    sweep(s.rows.p, n, s.panels.p, m, pairs_of(v_.d), nullptr, s.row_min.data(), s.col_min.data(),
          [&](int r, int c, int32_t value) {
            if (r >= n || c >= m) return;
            if (value >= s.col_min[c]) count(j0 + c, i0 + r, value, &s.counts[static_cast<size_t>(c) * p_.k1]);
            if (value < s.row_min[r]) return;
            s.for_rows.push_back({i0 + r, j0 + c, value});
            if (s.for_rows.size() >= STAGED) flush(s.for_rows, i), load_floors(s.row_min, i, n);
          });
    flush(s.for_rows, i);
    for (int c = 0; c < m; c++) {
      for (int l = 0; l < p_.k1; l++)
        above_[static_cast<size_t>(j0 + c) * p_.k1 + l].fetch_add(s.counts[static_cast<size_t>(c) * p_.k1 + l],
                                                                 std::memory_order_relaxed);
      update_lowest(j0 + c);
    }
  }

  void end_texts(int64_t block, int32_t* v2t, int32_t* se) {
    for (int64_t r = block * BLOCK; r < end(block); r++) {
      lists_->best(r, r, v2t + r * p_.k);
      int found = 0;
      for (int m = 0; m < p_.k1; m++)
        if (counting(r * p_.k1 + m)) se[r * p_.k1 + found++] = v2v_[r * p_.k1 + m];
      std::fill(se + r * p_.k1 + found, se + (r + 1) * p_.k1, -1);
    }
  }

 private:
  int64_t end(int64_t block) const { return std::min<int64_t>(v_.n, (block + 1) * BLOCK); }

  static double unit(const Fixed& f) { return static_cast<double>(f.scale) * f.scale; }

  bool same_image(int32_t a, int32_t b) const { return p_.owner ? p_.owner[a] == p_.owner[b] : a == b; }

  Scratch& prepare(int worker, int64_t i, int64_t j, const Rows& columns, float scale) {
    Scratch& s = scratch_.at(worker);
    s.size(v_.d, p_.k1);
    quantize_rows(v_, i * BLOCK, end(i) - i * BLOCK, fixed_v_.scale, s.rows.p);
    pack_panels(columns, j * BLOCK, end(j) - j * BLOCK, scale, s.panels.p);
    return s;
  }

  void load_floors(std::vector<int32_t>& into, int64_t block, int n) const {
    for (int r = 0; r < n; r++) into[r] = lists_->floor(block * BLOCK + r);
    std::fill(into.begin() + n, into.end(), HIGHEST);
  }

  void flush(std::vector<Staged>& staged, int64_t block) {
    std::lock_guard<std::mutex> hold(locks_[block]);
    for (const Staged& s : staged) lists_->offer(s.row, s.column, s.value, s.row);
    staged.clear();
  }

  // counting says whether the threshold is still below k2 images that score above it. Counts only grow, so a threshold
  // that leaves never comes back, and whether it is there at the end does not depend on who counted what first.
  bool counting(int64_t at) const {
    return v2v_[at] >= 0 && above_[at].load(std::memory_order_relaxed) < p_.k2;
  }

  void update_lowest(int64_t text) {
    double lowest = std::numeric_limits<double>::infinity();
    for (int m = 0; m < p_.k1; m++)
      if (counting(text * p_.k1 + m)) lowest = std::min(lowest, threshold_[text * p_.k1 + m]);
    lowest_[text].store(clamp32(std::floor(lowest * unit_ - bound_)), std::memory_order_relaxed);
  }

  // count adds image to the counts of the thresholds of text that it scores above: surely by its integer value, or,
  // within the bound, by its canonical score, ties going to the lower position. It does not score above its own.
  void count(int64_t text, int32_t image, int32_t value, int32_t* counts) const {
    double score = 0;
    bool scored = false;
    for (int m = 0; m < p_.k1; m++) {
      const int64_t at = text * p_.k1 + m;
      if (!counting(at)) continue;
      const double threshold = threshold_[at];
      if (value > threshold * unit_ + bound_) {
        counts[m]++;
        continue;
      }
      if (value < threshold * unit_ - bound_) continue;
      if (!scored) score = dot(v_, image, t_, text), scored = true;
      if (score > threshold || (score == threshold && image < v2v_[at])) counts[m]++;
    }
  }

  const Rows v_, t_;
  const ps_neighbor_params p_;
  std::vector<Scratch> scratch_;
  std::vector<std::mutex> locks_;  // of the lists of a block
  std::mutex measured_;
  Fixed fixed_v_, fixed_t_;
  std::unique_ptr<Lists> lists_;
  Buffer<int32_t> v2v_;
  double unit_ = 1, bound_ = 0;
  Buffer<double> threshold_;                   // score of text i with its m-th V2V neighbour
  std::vector<std::atomic<int32_t>> above_;    // images that text i scores above that
  std::vector<std::atomic<int32_t>> lowest_;   // value below which an image cannot change the counts of text i
};

char* ps_neighbors_new(ps_rows v, ps_rows t, ps_neighbor_params p, ps_neighbors** out) {
  return guarded([&] { *out = new ps_neighbors(v, t, p); });
}
void ps_neighbors_free(ps_neighbors* h) { delete h; }
int32_t ps_neighbors_block(void) { return BLOCK; }
char* ps_neighbors_norms(ps_neighbors* h, int64_t block) {
  return guarded([&] { h->norms(block); });
}
char* ps_neighbors_residuals(ps_neighbors* h, int64_t block) {
  return guarded([&] { h->residuals(block); });
}
char* ps_neighbors_begin_images(ps_neighbors* h) {
  return guarded([&] { h->begin_images(); });
}
char* ps_neighbors_images(ps_neighbors* h, int32_t worker, int64_t i, int64_t j) {
  return guarded([&] { h->images(worker, i, j); });
}
char* ps_neighbors_end_images(ps_neighbors* h, int64_t block, int32_t* v2v) {
  return guarded([&] { h->end_images(block, v2v); });
}
char* ps_neighbors_begin_texts(ps_neighbors* h) {
  return guarded([&] { h->begin_texts(); });
}
char* ps_neighbors_texts(ps_neighbors* h, int32_t worker, int64_t i, int64_t j) {
  return guarded([&] { h->texts(worker, i, j); });
}
char* ps_neighbors_end_texts(ps_neighbors* h, int64_t block, int32_t* v2t, int32_t* se) {
  return guarded([&] { h->end_texts(block, v2t, se); });
}
