// The C interface of this package's C++ code: opaque handles, plain arrays, errors as text.
//
// A function that can fail returns NULL or a message that the caller frees with ps_free_text. No C++ exception leaves
// it. Arrays are lent for the call, except where a comment says that a handle keeps the pointer.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A row-major matrix of n x d values: float16 when half is not 0, else float32.
typedef struct {
  const void* data;
  int64_t n;
  int32_t d;
  int32_t half;
} ps_rows;

void ps_free_text(char* text);
int64_t ps_live_handles(void);
int ps_select_ops(const char* name);  // 0 when this processor has no such instructions; "" chooses the widest

// Exact neighbours of a group. The handle keeps the pointers of v, t and owner. Calls of one phase may run concurrently,
// a worker number in one call at a time; the phases follow one another in the order in which they stand here.
typedef struct ps_neighbors ps_neighbors;
typedef struct {
  int32_t k, k1, k2;
  int32_t workers;
  const int32_t* owner;  // n numbers: members with equal numbers are no neighbours of each other in V2V; or NULL
} ps_neighbor_params;

char* ps_neighbors_new(ps_rows v, ps_rows t, ps_neighbor_params p, ps_neighbors** out);
void ps_neighbors_free(ps_neighbors* h);
int32_t ps_neighbors_block(void);                                        // rows of a block; a tile is block x block
char* ps_neighbors_norms(ps_neighbors* h, int64_t block);                // each block once
char* ps_neighbors_residuals(ps_neighbors* h, int64_t block);            // each block once
char* ps_neighbors_begin_images(ps_neighbors* h);
char* ps_neighbors_images(ps_neighbors* h, int32_t worker, int64_t i, int64_t j);  // each i <= j once
char* ps_neighbors_end_images(ps_neighbors* h, int64_t block, int32_t* v2v);       // n x k1
char* ps_neighbors_begin_texts(ps_neighbors* h);
char* ps_neighbors_texts(ps_neighbors* h, int32_t worker, int64_t i, int64_t j);   // each i, j once
char* ps_neighbors_end_texts(ps_neighbors* h, int64_t block, int32_t* v2t, int32_t* se);  // n x k, n x k1

// Plain k-means (Lloyd, squared L2). The handle keeps the pointer of x.
typedef struct ps_lloyd ps_lloyd;
char* ps_lloyd_new(ps_rows x, int32_t k, int32_t workers, ps_lloyd** out);
void ps_lloyd_free(ps_lloyd* h);
char* ps_lloyd_norms(ps_lloyd* h, int64_t block);
char* ps_lloyd_residuals(ps_lloyd* h, int64_t block);
char* ps_lloyd_set_centroids(ps_lloyd* h, const float* centroids);          // k x d
char* ps_lloyd_assign(ps_lloyd* h, int32_t worker, int64_t block, int32_t* assign, int64_t* changed);
// Mean of the member rows order[from[c]:from[c+1]] of each cluster c in [c0, c1), into mean (float64, k x d).
char* ps_lloyd_means(ps_lloyd* h, const int32_t* order, const int64_t* from, int32_t c0, int32_t c1, double* mean);
// Squared distances of a block's rows to the centres that they are assigned to.
char* ps_lloyd_distances(ps_lloyd* h, int64_t block, const int32_t* assign, const double* centres, double* distances);

// Canonical scores of n pairs of rows.
char* ps_scores(ps_rows x, int64_t n, const int32_t* left, const int32_t* right, double* scores);

// 8-bit rows: row i stands for its d codes times scales[i]. A query is d int16 values of at most 4095.
typedef struct {
  const int8_t* values;
  const float* scales;
  int64_t n;
  int32_t d;
} ps_codes;

typedef struct {
  int32_t query, row;
  float score;
} ps_code_hit;

// Lists the rows whose products with one of m queries, times the row's scale, are not below least of the query. There is
// room for n x m hits.
char* ps_scan_codes(ps_codes rows, int32_t m, const int16_t* queries, const float* least, ps_code_hit* hits,
                    int64_t* found);

// A row, with its inner product with a query.
typedef struct {
  int64_t row;
  float similarity;
} ps_hit;

// Inverted lists over float16 rows that lie elsewhere: one list a centroid. A handle does not change once it is made, and may
// be searched by many threads.
typedef struct ps_lists ps_lists;
char* ps_lists_new(const float* centroids, int64_t n, int32_t d, ps_lists** out);
// The lists of h, with rows [first, first+n) as well, each in the list of its number.
char* ps_lists_extended(const ps_lists* h, ps_rows rows, int64_t first, int64_t n, const int32_t* lists, ps_lists** out);
void ps_lists_free(ps_lists* h);
// The probes lists nearest to the query, nearest first. There are as many.
char* ps_lists_probe(const ps_lists* h, const float* q, int32_t probes, int64_t* lists);
// The k best rows, best first, of the nearest lists and of [from, n). There is room for k hits.
char* ps_lists_search(const ps_lists* h, const uint16_t* rows, int64_t n, int64_t from, const float* q, int32_t probes,
                      int32_t k, ps_hit* hits, int32_t* found);
// The k best rows of [from, n).
char* ps_scan(const uint16_t* rows, int64_t n, int32_t d, int64_t from, const float* q, int32_t k, ps_hit* hits,
              int32_t* found);

#ifdef __cplusplus
}
#endif
