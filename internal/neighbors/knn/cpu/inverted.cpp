// Inverted lists of live search. Entries are 8-bit codes, and what they find is ranked by the float16 rows themselves.
#include <memory>

#include "guard.h"

namespace ps {
namespace {

constexpr int CHUNK = 256;  // rows that are compared with one floor

struct Candidate {
  float score;
  int64_t at;
};

// before is a total order: the greater score, then the lower place.
bool before(const Candidate& a, const Candidate& b) { return a.score != b.score ? a.score > b.score : a.at < b.at; }

// Best keeps the best candidates that it is offered, and at times as many others.
class Best {
 public:
  void begin(size_t keep) {
    keep_ = keep;
    floor_ = -std::numeric_limits<float>::infinity();
    all_.clear();
  }
  float floor() const { return floor_; }
  void offer(float score, int64_t at) {
    all_.push_back({score, at});
    if (all_.size() == 2 * keep_ + 32) cut();
  }
  // ranked returns the best candidates, best first.
  std::vector<Candidate>& ranked() {
    cut();
    std::sort(all_.begin(), all_.end(), before);
    return all_;
  }
  // left returns the best candidates in any order.
  std::vector<Candidate>& left() {
    cut();
    return all_;
  }

 private:
  void cut() {
    if (all_.size() <= keep_) return;
    std::nth_element(all_.begin(), all_.begin() + keep_ - 1, all_.end(), before);
    all_.resize(keep_);
    floor_ = all_.back().score;
  }
  size_t keep_ = 1;
  float floor_ = 0;
  std::vector<Candidate> all_;
};

// close returns how many rows by their codes are compared anew for the best few.
size_t close(size_t few) { return few + few / 2 + 8; }

// Coded is a query in integers, and what a scan of codes needs.
struct Coded {
  std::vector<int16_t> values;
  CodeHit hits[CHUNK];

  void encode(const float* q, int d) {
    float most = 0;
    for (int i = 0; i < d; i++) most = std::max(most, std::abs(q[i]));
    const float scale = most > 0 && std::isfinite(most) ? MOST_QUERY / most : 0;
    values.resize(d);
    for (int i = 0; i < d; i++) values[i] = static_cast<int16_t>(std::lrintf(q[i] * scale));
  }

  // scan offers the rows whose scores reach the floor.
  template <class Number>
  void scan(const int8_t* rows, const float* scales, int64_t n, Best& best, Number&& number) {
    const int d = values.size();
    for (int64_t from = 0; from < n; from += CHUNK) {
      const int some = std::min<int64_t>(CHUNK, n - from);
      const int found = ops().code_hits(values.data(), rows + from * d, scales + from, some, d, best.floor(), hits);
      for (int i = 0; i < found; i++)
        if (hits[i].score >= best.floor()) best.offer(hits[i].score, number(from + hits[i].row));
    }
  }
};

// Range is the rows of a list in a part.
struct Range {
  const int8_t* codes;
  const float* scales;
  const int32_t* ids;
  int64_t n;
};

// Room is what a search needs. A thread keeps it from search to search.
struct Room {
  Coded coded;
  Best near, found, exact;
  std::vector<Range> ranges;
};

Room& room() {
  thread_local Room r;
  return r;
}

void encode(const uint16_t* row, int d, int8_t* codes, float* scale) { *scale = ops().encode(row, d, codes); }

constexpr size_t SHARE = 8;  // of the lists, one in so many is a small share

// Centroids are those of lists, in float32 and in codes.
struct Centroids {
  Centroids(const float* rows, int64_t n, int d) : n(n), d(d), exact(rows, rows + n * d), codes(n * d), scales(n) {
    for (int64_t i = 0; i < n; i++) {
      const float* row = rows + i * d;
      float most = 0;
      for (int j = 0; j < d; j++) most = std::max(most, std::abs(row[j]));
      if (!(most > 0) || !std::isfinite(most)) continue;
      for (int j = 0; j < d; j++) codes[i * d + j] = static_cast<int8_t>(std::lrintf(row[j] * (MOST_CODE / most)));
      scales[i] = most / MOST_CODE;
    }
  }

  // near returns the lists whose centroids have the largest inner products with the query, best first. A small share of all is
  // found by their codes.
  std::vector<Candidate>& near(Room& r, const float* q, size_t probes) const {
    r.near.begin(probes);
    if (probes * SHARE <= static_cast<size_t>(n))
      r.coded.scan(codes.data(), scales.data(), n, r.near, [](int64_t i) { return i; });
    else
      for (int64_t i = 0; i < n; i++) r.near.offer(static_cast<float>(ops().dot_ff(q, &exact[i * d], d)), i);
    return r.near.ranked();
  }

  const int64_t n;
  const int d;
  const std::vector<float> exact;
  std::vector<int8_t> codes;
  std::vector<float> scales;
};

// Part is rows in lists, one list after the other. It does not change once it is made.
struct Part {
  Part(int64_t lists, int64_t n, int d) : n(n), ends(lists + 1), ids(n), scales(n), codes(static_cast<size_t>(n) * d) {}

  int64_t n;
  std::vector<int32_t> ends;  // list l has the entries [ends[l], ends[l+1])
  Buffer<int32_t> ids;
  Buffer<float> scales;
  Buffer<int8_t> codes;
};

using Parts = std::vector<std::shared_ptr<const Part>>;

std::shared_ptr<const Part> part_of(const Centroids& c, const Rows& x, int64_t first, int64_t n, const int32_t* lists) {
  auto p = std::make_shared<Part>(c.n, n, c.d);
  for (int64_t i = 0; i < n; i++) {
    if (lists[i] < 0 || lists[i] >= c.n) throw std::out_of_range("there is no list " + std::to_string(lists[i]));
    p->ends[lists[i] + 1]++;
  }
  for (int64_t l = 0; l < c.n; l++) p->ends[l + 1] += p->ends[l];
  std::vector<int32_t> next(p->ends.begin(), p->ends.end() - 1);
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = next[lists[i]]++;
    p->ids[at] = static_cast<int32_t>(first + i);
    encode(x.h(first + i), c.d, &p->codes[at * c.d], &p->scales[at]);
  }
  return p;
}

std::shared_ptr<const Part> merged(const Centroids& c, const Part& a, const Part& b) {
  auto p = std::make_shared<Part>(c.n, a.n + b.n, c.d);
  int64_t at = 0;
  for (int64_t l = 0; l < c.n; l++) {
    for (const Part* from : {&a, &b}) {
      const int64_t first = from->ends[l], n = from->ends[l + 1] - first;
      std::copy_n(from->ids.p + first, n, p->ids.p + at);
      std::copy_n(from->scales.p + first, n, p->scales.p + at);
      std::copy_n(from->codes.p + first * c.d, n * c.d, p->codes.p + at * c.d);
      at += n;
    }
    p->ends[l + 1] = static_cast<int32_t>(at);
  }
  return p;
}

// rank compares the query with the rows of candidates, and keeps the k best.
void rank(const Rows& x, const float* q, std::vector<Candidate>& candidates, Best& best) {
  for (const Candidate& c : candidates)
    for (int line = 0; line < x.d * 2; line += 64) __builtin_prefetch(reinterpret_cast<const char*>(x.h(c.at)) + line);
  for (const Candidate& c : candidates) {
    const float s = ops().similarity(q, x.h(c.at), x.d);
    if (s >= best.floor()) best.offer(s, c.at);
  }
}

// scan compares the query with rows [from, x.n).
void scan(const Rows& x, int64_t from, const float* q, Best& best) {
  for (int64_t i = from; i < x.n; i++) {
    const float s = ops().similarity(q, x.h(i), x.d);
    if (s > best.floor()) best.offer(s, i);
  }
}

int32_t write(Best& best, ps_hit* hits) {
  int32_t n = 0;
  for (const Candidate& c : best.ranked()) hits[n++] = ps_hit{c.at, c.score};
  return n;
}

}  // namespace
}  // namespace ps

using namespace ps;

struct ps_lists : Handle {
  ps_lists(std::shared_ptr<const Centroids> c, Parts p) : centroids(std::move(c)), parts(std::move(p)) {}
  const std::shared_ptr<const Centroids> centroids;
  const Parts parts;  // a later one has fewer rows than those before it
};

char* ps_lists_new(const float* centroids, int64_t n, int32_t d, ps_lists** out) {
  return guarded([&] { *out = new ps_lists(std::make_shared<Centroids>(centroids, n, d), {}); });
}
void ps_lists_free(ps_lists* h) { delete h; }

char* ps_lists_extended(const ps_lists* h, ps_rows rows, int64_t first, int64_t n, const int32_t* lists, ps_lists** out) {
  return guarded([&] {
    const Centroids& c = *h->centroids;
    Parts parts = h->parts;
    std::shared_ptr<const Part> fresh = part_of(c, rows_of(rows), first, n, lists);
    for (; !parts.empty() && parts.back()->n <= fresh->n; parts.pop_back()) fresh = merged(c, *parts.back(), *fresh);
    parts.push_back(std::move(fresh));
    *out = new ps_lists(h->centroids, std::move(parts));
  });
}

char* ps_lists_probe(const ps_lists* h, const float* q, int32_t probes, int64_t* lists) {
  return guarded([&] {
    Room& r = room();
    r.coded.encode(q, h->centroids->d);
    for (const Candidate& c : h->centroids->near(r, q, probes)) *lists++ = c.at;
  });
}

char* ps_lists_search(const ps_lists* h, const uint16_t* data, int64_t n, int64_t from, const float* q, int32_t probes,
                      int32_t k, ps_hit* hits, int32_t* found) {
  return guarded([&] {
    const Rows x{data, n, h->centroids->d, true};
    Room& r = room();
    r.coded.encode(q, x.d);
    r.found.begin(close(k));
    r.ranges.clear();
    for (const Candidate& list : h->centroids->near(r, q, probes))
      for (const auto& p : h->parts) {
        const int64_t first = p->ends[list.at], some = p->ends[list.at + 1] - first;
        if (some == 0) continue;
        r.ranges.push_back({p->codes.p + first * x.d, p->scales.p + first, p->ids.p + first, some});
        for (int line = 0; line < 4 * x.d; line += 64) __builtin_prefetch(r.ranges.back().codes + line);
      }
    for (const Range& at : r.ranges) r.coded.scan(at.codes, at.scales, at.n, r.found, [&](int64_t i) { return at.ids[i]; });
    r.exact.begin(k);
    rank(x, q, r.found.left(), r.exact);
    scan(x, from, q, r.exact);
    *found = write(r.exact, hits);
  });
}

char* ps_scan(const uint16_t* data, int64_t n, int32_t d, int64_t from, const float* q, int32_t k, ps_hit* hits, int32_t* found) {
  return guarded([&] {
    Best& best = room().exact;
    best.begin(k);
    scan(Rows{data, n, d, true}, from, q, best);
    *found = write(best, hits);
  });
}
