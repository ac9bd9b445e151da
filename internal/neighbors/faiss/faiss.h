// The C interface of this package's C++ code: plain arrays, errors as text. A function that can fail returns NULL or a message
// that the caller frees with fs_free_text. No C++ exception leaves it.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void fs_free_text(char* text);
char* fs_kmeans(int64_t n, int32_t d, const float* x, int32_t k, int32_t iterations, int32_t seed, float* centroids,
                double* inertia);

// An inverted file of float16 rows, scored by the inner product.
typedef struct fs_ivf fs_ivf;
char* fs_ivf_new(int32_t d, int32_t lists, const float* centroids, int32_t probes, fs_ivf** ivf);
char* fs_ivf_add(fs_ivf* ivf, int32_t list, int64_t n, const float* x, const int64_t* ids);
char* fs_ivf_write(const fs_ivf* ivf, const char* path);
void fs_ivf_free(fs_ivf* ivf);
char* fs_search(const char* path, int64_t n, const float* x, int32_t k, float* scores, int64_t* ids);

#ifdef __cplusplus
}
#endif
