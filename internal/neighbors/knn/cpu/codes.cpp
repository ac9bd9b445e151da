// Scans of 8-bit rows. Products are exact integers, so every instruction set finds the same hits.
#include <limits>

#include "guard.h"

namespace ps {
namespace {

// FEW queries, and queries of few rows, are multiplied query by query. Otherwise queries share panels, and each row is widened once
// for all.
constexpr int FEW = 6, FEW_ROWS = 128;

struct CodeScan {
  ps_codes rows;
  int m;
  const int16_t* queries;
  const float* least;
  CodeHit* hits;
  int64_t found = 0;

  void one_by_one() {
    for (int q = 0; q < m; q++) {
      const int n = ops().code_hits(queries + static_cast<int64_t>(q) * rows.d, rows.values, rows.scales, rows.n, rows.d,
                                    least[q], hits + found);
      for (int i = 0; i < n; i++) hits[found++].query = q;
    }
  }

  // pack writes queries [from, from+NR) as a panel: panel[pair][column], zero columns at the end.
  void pack(int from, int32_t* panel) const {
    const int pairs = pairs_of(rows.d);
    std::fill(panel, panel + static_cast<int64_t>(pairs) * NR, 0);
    int16_t* out = reinterpret_cast<int16_t*>(panel);
    for (int c = 0; c < std::min(NR, m - from); c++) {
      const int16_t* q = queries + static_cast<int64_t>(from + c) * rows.d;
      for (int j = 0; j < rows.d; j++) out[(static_cast<int64_t>(j / 2) * NR + c) * 2 + j % 2] = q[j];
    }
  }

  // widen writes the rows as int16, and zero rows up to a multiple of MR.
  std::vector<int16_t> widen() const {
    const int width = 2 * pairs_of(rows.d);
    std::vector<int16_t> wide(static_cast<size_t>(round_up(static_cast<int>(rows.n), MR)) * width);
    for (int64_t i = 0; i < rows.n; i++)
      for (int j = 0; j < rows.d; j++) wide[i * width + j] = rows.values[i * rows.d + j];
    return wide;
  }

  void by_panels() {
    static const int32_t no_bias[NR] = {};
    const int pairs = pairs_of(rows.d);
    const std::vector<int16_t> wide = widen();
    std::vector<int32_t> panel(static_cast<size_t>(pairs) * NR);
    alignas(64) int32_t out[MR * NR];
    CodeHit block[MR * NR];
    for (int from = 0; from < m; from += NR) {
      pack(from, panel.data());
      float bound[NR];
      for (int c = 0; c < NR; c++) bound[c] = from + c < m ? least[from + c] : std::numeric_limits<float>::infinity();
      for (int64_t r = 0; r < rows.n; r += MR) {
        float scale[MR] = {};
        const int real = static_cast<int>(std::min<int64_t>(MR, rows.n - r));
        std::copy_n(rows.scales + r, real, scale);
        const int32_t* a = reinterpret_cast<const int32_t*>(wide.data()) + r * pairs;
        ops().mul(a, pairs, panel.data(), pairs, no_bias, out);
        const int n = ops().code_scan(out, scale, bound, block);
        for (int h = 0; h < n; h++)
          if (block[h].row < real)
            hits[found++] = CodeHit{from + block[h].query, static_cast<int32_t>(r) + block[h].row, block[h].score};
      }
    }
  }
};

}  // namespace
}  // namespace ps

char* ps_scan_codes(ps_codes rows, int32_t m, const int16_t* queries, const float* least, ps_code_hit* hits,
                    int64_t* found) {
  return ps::guarded([&] {
    static_assert(sizeof(ps_code_hit) == sizeof(ps::CodeHit));
    ps::CodeScan scan{rows, m, queries, least, reinterpret_cast<ps::CodeHit*>(hits)};
    if (m < ps::FEW || rows.n < ps::FEW_ROWS)
      scan.one_by_one();
    else
      scan.by_panels();
    *found = scan.found;
  });
}
