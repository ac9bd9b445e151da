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

#ifdef __cplusplus
}
#endif
