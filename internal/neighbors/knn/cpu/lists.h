// The best k columns of every row, exactly, from candidates whose scores are known only within a bound.
#pragma once
#include "fixed.h"

namespace ps {

// Scorer is the canonical score of (row, column): a float64 dot product, less half the column's squared norm in k-means.
struct Scorer {
  Rows rows, columns;
  const double* half_norms = nullptr;

  double operator()(int64_t row, int64_t column) const {
    const double s = dot(rows, row, columns, column);
    return half_norms ? s - half_norms[column] : s;
  }
};

// Lists holds candidates per row. Between calls, every column that was offered and belongs to the exact best k of the
// columns offered so far is in its row's list:
//
//   Let B bound |value - unit*score|. With k candidates of value A or more, their scores are at least (A-B)/unit, so a
//   column of the best k scores at least that much and has a value of at least A-2B. When a list is resolved exactly,
//   with E the k-th best score, such a column has a value of at least unit*E-B.
//
// The order is total (score descending, then position ascending), so the best k do not depend on the order of offers.
class Lists {
 public:
  Lists(int64_t rows, int k, Scorer scorer, double unit, double bound)
      : k_(k), cap_(2 * k + 16), scorer_(scorer), unit_(unit), bound_(bound),
        entries_(static_cast<size_t>(rows) * cap_), count_(rows), floor_(rows) {
    clear(rows);
  }

  void clear(int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
      count_[r] = 0;
      floor_[r].store(LOWEST, std::memory_order_relaxed);
    }
  }

  // floor is the value below which an offer to the row is useless. It only rises, and may be read while another thread
  // offers: a stale floor lets useless offers through, nothing more.
  int32_t floor(int64_t row) const { return floor_[row].load(std::memory_order_relaxed); }

  void offer(int64_t row, int32_t column, int32_t value, int64_t scored_row) {
    if (value < floor(row)) return;
    Entry* list = &entries_[static_cast<size_t>(row) * cap_];
    int& n = count_[row];
    list[n++] = Entry{column, value};
    if (n == cap_) compact(row, scored_row);
  }

  // raise says that only values of at least this much matter to the row.
  void raise(int64_t row, double value) {
    const int32_t v = clamp32(std::floor(value));
    if (v > floor(row)) floor_[row].store(v, std::memory_order_relaxed);
  }

  // best resolves the row and writes its k best columns, best first, then -1.
  void best(int64_t row, int64_t scored_row, int32_t* columns) {
    resolve(row, scored_row);
    const Entry* list = &entries_[static_cast<size_t>(row) * cap_];
    for (int i = 0; i < k_; i++) columns[i] = i < count_[row] ? list[i].column : -1;
  }

 private:
  struct Entry {
    int32_t column, value;
  };
  struct Scored {
    Entry entry;
    double score;
  };

  void compact(int64_t row, int64_t scored_row) {
    Entry* list = &entries_[static_cast<size_t>(row) * cap_];
    int& n = count_[row];
    std::nth_element(list, list + k_ - 1, list + n, [](const Entry& a, const Entry& b) { return a.value > b.value; });
    raise(row, list[k_ - 1].value - 2 * bound_);
    const int32_t lowest = floor(row);
    n = static_cast<int>(std::partition(list, list + n, [&](const Entry& e) { return e.value >= lowest; }) - list);
    if (n > cap_ - 8) resolve(row, scored_row);
  }

  void resolve(int64_t row, int64_t scored_row) {
    Entry* list = &entries_[static_cast<size_t>(row) * cap_];
    int& n = count_[row];
    std::vector<Scored> scored(n);
    for (int i = 0; i < n; i++) scored[i] = Scored{list[i], scorer_(scored_row, list[i].column)};
    std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) {
      return a.score != b.score ? a.score > b.score : a.entry.column < b.entry.column;
    });
    n = std::min(n, k_);
    for (int i = 0; i < n; i++) list[i] = scored[i].entry;
    if (n == k_) raise(row, unit_ * scored[k_ - 1].score - bound_);
  }

  const int k_, cap_;
  const Scorer scorer_;
  const double unit_, bound_;
  Buffer<Entry> entries_;
  std::vector<int> count_;
  std::vector<std::atomic<int32_t>> floor_;
};

}  // namespace ps
