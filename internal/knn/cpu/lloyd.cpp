// Plain k-means: assignment by tiles, means in float64. See lloyd.go for the guarantees.
#include "guard.h"
#include "lists.h"

namespace ps {
namespace {

constexpr int BLOCK = 2048;

struct Scratch {
  Buffer<int16_t> rows;
  std::unique_ptr<Lists> lists;
  std::vector<int32_t> row_min;
};

}  // namespace
}  // namespace ps

using namespace ps;

struct ps_lloyd : Handle {
  ps_lloyd(ps_rows x, int32_t k, int32_t workers)
      : x_(rows_of(x)), k_(k), scratch_(workers), centroids_(static_cast<size_t>(k) * x.d),
        panels_(static_cast<size_t>(round_up(k, NR)) * pairs_of(x.d)), half_norms_(k), bias_(round_up(k, NR)),
        never_(round_up(k, NR), HIGHEST) {}

  void norms(int64_t block) {
    double norm = 0;
    measure_norm(x_, block * BLOCK, end(block), norm);
    std::lock_guard<std::mutex> hold(measured_);
    fixed_x_.norm = std::max(fixed_x_.norm, norm);
    fixed_x_.scale = scale_for(fixed_x_.norm);
  }

  void residuals(int64_t block) {
    double residual = 0;
    measure_residual(x_, block * BLOCK, end(block), fixed_x_.scale, residual);
    std::lock_guard<std::mutex> hold(measured_);
    fixed_x_.residual = std::max(fixed_x_.residual, residual);
  }

  void set_centroids(const float* centroids) {
    std::copy_n(centroids, centroids_.size(), centroids_.begin());
    const Rows c = columns();
    Fixed f;
    measure_norm(c, 0, k_, f.norm);
    // |c|^2/2 in fixed point, the bias, has to fit as well, even for centroids that are longer than the rows.
    f.scale = scale_for(std::max(f.norm, fixed_x_.norm > 0 ? f.norm * f.norm / fixed_x_.norm : 0));
    measure_residual(c, 0, k_, f.scale, f.residual);
    pack_panels(c, 0, k_, f.scale, panels_.p);
    unit_ = static_cast<double>(fixed_x_.scale) * f.scale;
    bound_ = error_bound(fixed_x_, f) + 1;  // 1 for the rounding of the bias
    for (int i = 0; i < k_; i++) {
      half_norms_[i] = dot(c, i, c, i) / 2;
      bias_[i] = clamp32(-std::nearbyint(half_norms_[i] * unit_));
    }
    for (Scratch& s : scratch_) s.lists.reset();
  }

  void assign(int worker, int64_t block, int32_t* assign, int64_t* changed) {
    Scratch& s = prepare(worker);
    const int64_t first = block * BLOCK;
    const int n = end(block) - first;
    quantize_rows(x_, first, n, fixed_x_.scale, s.rows.p);
    s.lists->clear(n);
    const Scorer score = scorer();
    std::fill(s.row_min.begin(), s.row_min.end(), HIGHEST);
    for (int r = 0; r < n; r++) {  // no centroid that is worse than the present one matters
      const int32_t present = assign[first + r];
      if (present >= 0) s.lists->raise(r, unit_ * score(first + r, present) - bound_);
      s.row_min[r] = s.lists->floor(r);
    }
    sweep(s.rows.p, n, panels_.p, k_, pairs_of(x_.d), bias_.data(), s.row_min.data(), never_.data(),
          [&](int r, int c, int32_t value) {
            if (r >= n || c >= k_ || value < s.row_min[r]) return;
            s.lists->offer(r, c, value, first + r);
            s.row_min[r] = s.lists->floor(r);
          });
    *changed = 0;
    for (int r = 0; r < n; r++) {
      int32_t best;
      s.lists->best(r, first + r, &best);
      *changed += best != assign[first + r];
      assign[first + r] = best;
    }
  }

  void means(const int32_t* order, const int64_t* from, int32_t c0, int32_t c1, double* mean) const {
    std::vector<float> wide(x_.d);
    for (int c = c0; c < c1; c++) {
      double* sum = mean + static_cast<int64_t>(c) * x_.d;
      std::fill(sum, sum + x_.d, 0.0);
      for (int64_t at = from[c]; at < from[c + 1]; at++) {
        const float* row = widened(order[at], wide.data());
        for (int j = 0; j < x_.d; j++) sum[j] += row[j];
      }
      const double n = from[c + 1] - from[c];
      for (int j = 0; j < x_.d; j++) sum[j] /= n;
    }
  }

  // Unfused on every processor, as the farthest row depends on the last bit.
  __attribute__((optimize("fp-contract=off")))
  void distances(int64_t block, const int32_t* assign, const double* centres, double* distances) const {
    std::vector<float> wide(x_.d);
    for (int64_t r = block * BLOCK; r < end(block); r++) {
      const float* row = widened(r, wide.data());
      const double* c = centres + static_cast<int64_t>(assign[r]) * x_.d;
      double sum = 0;
      for (int j = 0; j < x_.d; j++) sum += (row[j] - c[j]) * (row[j] - c[j]);
      distances[r] = sum;
    }
  }

 private:
  int64_t end(int64_t block) const { return std::min<int64_t>(x_.n, (block + 1) * BLOCK); }
  Rows columns() const { return Rows{centroids_.data(), k_, x_.d, false}; }
  Scorer scorer() const { return Scorer{x_, columns(), half_norms_.data()}; }

  const float* widened(int64_t row, float* into) const {
    if (!x_.half) return x_.f(row);
    ops().widen(x_.h(row), x_.d, into);
    return into;
  }

  Scratch& prepare(int worker) {
    Scratch& s = scratch_.at(worker);
    if (!s.rows.p) {
      s.rows.reset(static_cast<size_t>(2) * pairs_of(x_.d) * round_up(BLOCK, MR));
      s.row_min.resize(round_up(BLOCK, MR));
    }
    if (!s.lists) s.lists = std::make_unique<Lists>(BLOCK, 1, scorer(), unit_, bound_);
    return s;
  }

  const Rows x_;
  const int k_;
  std::vector<Scratch> scratch_;
  std::mutex measured_;
  Fixed fixed_x_;
  std::vector<float> centroids_;
  Buffer<int32_t> panels_;
  std::vector<double> half_norms_;
  std::vector<int32_t> bias_, never_;
  double unit_ = 1, bound_ = 0;
};

char* ps_lloyd_new(ps_rows x, int32_t k, int32_t workers, ps_lloyd** out) {
  return guarded([&] { *out = new ps_lloyd(x, k, workers); });
}
void ps_lloyd_free(ps_lloyd* h) { delete h; }
char* ps_lloyd_norms(ps_lloyd* h, int64_t block) {
  return guarded([&] { h->norms(block); });
}
char* ps_lloyd_residuals(ps_lloyd* h, int64_t block) {
  return guarded([&] { h->residuals(block); });
}
char* ps_lloyd_set_centroids(ps_lloyd* h, const float* centroids) {
  return guarded([&] { h->set_centroids(centroids); });
}
char* ps_lloyd_assign(ps_lloyd* h, int32_t worker, int64_t block, int32_t* assign, int64_t* changed) {
  return guarded([&] { h->assign(worker, block, assign, changed); });
}
char* ps_lloyd_means(ps_lloyd* h, const int32_t* order, const int64_t* from, int32_t c0, int32_t c1, double* mean) {
  return guarded([&] { h->means(order, from, c0, c1, mean); });
}
char* ps_lloyd_distances(ps_lloyd* h, int64_t block, const int32_t* assign, const double* centres, double* distances) {
  return guarded([&] { h->distances(block, assign, centres, distances); });
}
char* ps_scores(ps_rows x, int64_t n, const int32_t* left, const int32_t* right, double* scores) {
  return guarded([&] {
    const Rows rows = rows_of(x);
    for (int64_t i = 0; i < n; i++) scores[i] = dot(rows, left[i], rows, right[i]);
  });
}
