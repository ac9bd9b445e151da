// Plain k-means: assignment by tiles, means in float64. See lloyd.go for the guarantees.
#include "guard.h"
#include "lists.h"

namespace ps {
namespace {

constexpr int BLOCK = 2048;
constexpr int AHEAD = 8;            // rows that are asked for before they are read
constexpr int FEW = 8;              // one in so many centroids counts as having moved far
constexpr double MOST_SLACK = 0.05;  // of the largest squared norm: with more, too many products reach the thresholds

// Top is the best product of a row and the second best.
struct Top {
  int32_t column = -1, value = LOWEST, second = LOWEST;

  void add(int32_t c, int32_t v) {
    if (v > value) {
      second = value;
      column = c;
      value = v;
    } else {
      second = std::max(second, v);
    }
  }
};

struct Scratch {
  Buffer<int16_t> rows;
  std::unique_ptr<Lists> lists;
  std::vector<int32_t> row_min;
  std::vector<int> all, few;  // rows of the block that are compared with all centroids, and with few
  std::vector<double> own_score;
  std::vector<Top> top;
};

// Columns are packed centroids.
struct Columns {
  int n = 0;
  Buffer<int32_t> panels;
  std::vector<int32_t> bias;
};

}  // namespace
}  // namespace ps

using namespace ps;

struct ps_lloyd : Handle {
  ps_lloyd(ps_rows x, int32_t k, int32_t workers)
      : x_(rows_of(x)), k_(k), scratch_(workers), centroids_(static_cast<size_t>(k) * x.d),
        half_norms_(k), never_(round_up(k, NR), HIGHEST), upper_(x.n), owner_(x.n, -1) {}

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
    const std::vector<float> old_centroids = centroids_;
    const std::vector<double> old_half_norms = half_norms_;
    std::copy_n(centroids, centroids_.size(), centroids_.begin());
    const Rows c = columns();
    Fixed f;
    measure_norm(c, 0, k_, f.norm);
    // |c|^2/2 in fixed point, the bias, has to fit as well, even for centroids that are longer than the rows.
    f.scale = scale_for(std::max(f.norm, fixed_x_.norm > 0 ? f.norm * f.norm / fixed_x_.norm : 0));
    measure_residual(c, 0, k_, f.scale, f.residual);
    unit_ = static_cast<double>(fixed_x_.scale) * f.scale;
    bound_ = error_bound(fixed_x_, f) + 1;  // 1 for the rounding of the bias
    for (int i = 0; i < k_; i++) half_norms_[i] = dot(c, i, c, i) / 2;
    pack(c, half_norms_, f.scale, all_);
    const double largest = std::max(f.norm, fixed_x_.norm);
    rounding_ = (x_.d + 64) * 1e-15 * largest * largest;
    moved(old_centroids, old_half_norms, f.scale);
    slack_ = clamp32(std::min(4 * drift_, MOST_SLACK * largest * largest) * unit_);
    for (Scratch& s : scratch_) s.lists.reset();
  }

  // assign compares a row with all centroids, or only with those that have moved far. Let U bound the scores of all but the
  // row's own centroid in the round before. A score changes by at most |x| |c'-c| + ||c'|^2-|c|^2|/2 where c moves to c'. So a
  // row that scores its own centroid above U plus that change cannot go to one that has moved no farther.
  void assign(int worker, int64_t block, int32_t* assign, int64_t* changed) {
    Scratch& s = prepare(worker);
    const int64_t first = block * BLOCK;
    const Scorer score = scorer();
    s.all.clear();
    s.few.clear();
    for (int r = 0; r < end(block) - first; r++) {
      const int32_t own = assign[first + r];
      s.own_score[r] = own >= 0 ? score(first + r, own) : 0;
      const bool known = own >= 0 && own == owner_[first + r];
      (known && s.own_score[r] > upper_[first + r] + drift_ ? s.few : s.all).push_back(r);
    }
    *changed = settle(s, s.all, false, first, assign) + settle(s, s.few, true, first, assign);
  }

  void means(const int32_t* order, const int64_t* from, int32_t c0, int32_t c1, double* mean) const {
    std::vector<float> wide(x_.d);
    for (int c = c0; c < c1; c++) {
      double* sum = mean + static_cast<int64_t>(c) * x_.d;
      std::fill(sum, sum + x_.d, 0.0);
      for (int64_t at = from[c]; at < from[c + 1]; at++) {
        if (at + AHEAD < from[k_]) prefetch(order[at + AHEAD]);
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

  // pack makes columns of the rows of c.
  void pack(const Rows& c, const std::vector<double>& half_norms, float scale, Columns& out) const {
    out.n = c.n;
    out.panels.reset(static_cast<size_t>(round_up(out.n, NR)) * pairs_of(c.d));
    pack_panels(c, 0, out.n, scale, out.panels.p);
    out.bias.assign(round_up(out.n, NR), 0);
    for (int i = 0; i < out.n; i++) out.bias[i] = clamp32(-std::nearbyint(half_norms[i] * unit_));
  }

  // moved packs the centroids that have moved farthest, and bounds how much the others have changed a score.
  void moved(const std::vector<float>& old_centroids, const std::vector<double>& old_half_norms, float scale) {
    moved_ids_.clear();
    const bool first = !begun_;
    begun_ = true;
    drift_ = std::numeric_limits<double>::infinity();
    if (first) return;
    std::vector<double> change(k_);
    for (int i = 0; i < k_; i++) {
      double sum = 0;
      for (size_t j = static_cast<size_t>(i) * x_.d; j < static_cast<size_t>(i + 1) * x_.d; j++) {
        const double e = static_cast<double>(centroids_[j]) - old_centroids[j];
        sum += e * e;
      }
      change[i] = std::sqrt(sum) * fixed_x_.norm + std::abs(half_norms_[i] - old_half_norms[i]);
    }
    std::vector<double> sorted = change;
    const int at = k_ - 1 - k_ / FEW;
    std::nth_element(sorted.begin(), sorted.begin() + at, sorted.end());
    drift_ = sorted[at] * (1 + 1e-9) + rounding_;
    std::vector<float> rows;
    std::vector<double> half_norms;
    for (int i = 0; i < k_; i++) {
      if (change[i] <= sorted[at]) continue;
      moved_ids_.push_back(i);
      half_norms.push_back(half_norms_[i]);
      rows.insert(rows.end(), centroids_.begin() + static_cast<size_t>(i) * x_.d, centroids_.begin() + static_cast<size_t>(i + 1) * x_.d);
    }
    pack(Rows{rows.data(), static_cast<int64_t>(moved_ids_.size()), x_.d, false}, half_norms, scale, moved_);
  }

  // settle compares rows of a block with all centroids, or with few: those that moved far, and a row's own. It assigns them,
  // notes a bound of what the other clusters score, and returns how many rows changed.
  int64_t settle(Scratch& s, const std::vector<int>& rows, bool few, int64_t first, int32_t* assign) {
    const Columns& columns = few ? moved_ : all_;
    const int n = rows.size(), width = 2 * pairs_of(x_.d);
    s.lists->clear(n);
    s.top.assign(n, Top());
    std::fill(s.row_min.begin(), s.row_min.end(), HIGHEST);
    std::fill_n(s.rows.p + static_cast<int64_t>(n) * width, (round_up(n, MR) - n) * width, int16_t{0});
    for (int i = 0; i < n; i++) {
      const int64_t row = first + rows[i];
      quantize(x_, row, fixed_x_.scale, s.rows.p + static_cast<int64_t>(i) * width);
      if (assign[row] >= 0) {  // no centroid that is worse than the present one matters
        s.lists->raise(i, unit_ * s.own_score[rows[i]] - bound_);
        if (few) s.lists->offer(i, assign[row], clamp32(std::nearbyint(unit_ * s.own_score[rows[i]])), row);
      }
      s.row_min[i] = below(s.lists->floor(i));
    }
    sweep(s.rows.p, n, columns.panels.p, columns.n, pairs_of(x_.d), columns.bias.data(), s.row_min.data(), never_.data(),
          [&](int i, int c, int32_t value) {
            if (i >= n || c >= columns.n || value < s.row_min[i]) return;
            const int32_t id = few ? moved_ids_[c] : c;
            s.top[i].add(id, value);
            s.lists->offer(i, id, value, first + rows[i]);
            s.row_min[i] = std::max(s.row_min[i], below(s.lists->floor(i)));
          });
    int64_t changed = 0;
    for (int i = 0; i < n; i++) {
      const int64_t row = first + rows[i];
      int32_t best;
      s.lists->best(i, row, &best);
      const int32_t other = best == s.top[i].column ? s.top[i].second : s.top[i].value;
      double upper = (std::max<double>(other, static_cast<double>(s.row_min[i]) - 1) + bound_) / unit_ + rounding_;
      if (few) upper = std::max(upper, upper_[row] + drift_);
      if (few && best != assign[row]) upper = std::max(upper, s.own_score[rows[i]] + rounding_);
      upper_[row] = upper;
      changed += best != assign[row];
      assign[row] = owner_[row] = best;
    }
    return changed;
  }

  // below returns a threshold that leaves room under a floor, so that the next rounds have a bound.
  int32_t below(int32_t floor) const { return floor < LOWEST + slack_ ? LOWEST : floor - slack_; }

  // prefetch asks for a row that is read soon.
  void prefetch(int64_t row) const {
    const int size = x_.half ? sizeof(uint16_t) : sizeof(float);
    const char* data = static_cast<const char*>(x_.data) + row * x_.d * size;
    for (int at = 0; at < x_.d * size; at += 64) __builtin_prefetch(data + at);
  }

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
      s.own_score.resize(BLOCK);
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
  std::vector<double> half_norms_;
  Columns all_, moved_;
  std::vector<int32_t> moved_ids_, never_;
  bool begun_ = false;
  double unit_ = 1, bound_ = 0, rounding_ = 0;
  double drift_ = 0;       // no centroid outside moved_ has changed a score by more since the round before
  int32_t slack_ = 0;      // of thresholds
  std::vector<double> upper_;  // of each row: no cluster but owner_'s scores more
  std::vector<int32_t> owner_;
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
    std::vector<float> wide(rows.half ? rows.d : 0);  // the left row, which is often the same again
    const Rows one{wide.data(), 1, rows.d, false};
    for (int64_t i = 0; i < n; i++) {
      if (rows.half && (i == 0 || left[i] != left[i - 1])) ops().widen(rows.h(left[i]), rows.d, wide.data());
      scores[i] = rows.half ? dot(one, 0, rows, right[i]) : dot(rows, left[i], rows, right[i]);
    }
  });
}
