// The C interface of this package's C++ code: opaque handles, plain arrays, errors as text.
//
// A function that can fail returns NULL or a message that the caller frees with fs_free_text. No C++ exception leaves
// it. Arrays are lent for the call, except where a comment says that a handle keeps the pointer.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef float (*fs_similarity)(const float* q, const uint16_t* row, int d);

// Rows is a row-major matrix of n x d float16 values, and the function that compares a query with one of them.
typedef struct {
  const uint16_t* data;
  int64_t n;
  int32_t d;
  fs_similarity similarity;
} fs_rows;

void fs_free_text(char* text);
int64_t fs_live_handles(void);

// k-means, and inverted lists over float16 rows that lie elsewhere.
char* fs_kmeans(int64_t n, int32_t d, const float* x, int32_t k, int32_t iterations, int32_t seed, float* centroids,
                double* inertia);

typedef struct fs_ivf fs_ivf;
char* fs_ivf_new(fs_rows centroids, const float* exact, fs_ivf** out);  // one list a centroid, in float16 and in float32
char* fs_ivf_like(const fs_ivf* h, fs_ivf** out);  // empty lists that share the centroids
void fs_ivf_free(fs_ivf* h);
char* fs_ivf_add(fs_ivf* h, int64_t n, const int64_t* ids, const int64_t* lists);
char* fs_ivf_merge(fs_ivf* h, const fs_ivf* other);
// The probes lists nearest to the query, nearest first, then -1; by a graph when they are few of many.
char* fs_ivf_probe(const fs_ivf* h, const float* q, int32_t probes, int64_t* lists);
// Searches n lists; id i is row i of rows.
char* fs_ivf_search(const fs_ivf* h, fs_rows rows, const float* q, int32_t n, const int64_t* lists, int32_t k,
                    float* scores, int64_t* ids);

// The k rows of [from, rows.n) with the largest inner products, best first, then -1.
char* fs_scan(fs_rows rows, int64_t from, const float* q, int32_t k, float* scores, int64_t* ids);

#ifdef __cplusplus
}
#endif
