// The C face of libtorch, as narrow as pairstream needs it.
//
// Handles are opaque pointers owned by the caller, who gives them back with ps_free. No exception crosses this
// header: a function that can fail returns its error as a malloc'ed string (NULL: success), to be freed by the caller.
#ifndef PAIRSTREAM_TORCH_SHIM_H
#define PAIRSTREAM_TORCH_SHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_tensor ps_tensor;  // an at::Tensor
typedef struct ps_script ps_script;  // a torch::jit::Module
typedef struct ps_upload ps_upload;  // a tensor on its way to a device

typedef struct {
  ps_tensor *tensor;
  char *error;
} ps_result;

typedef struct {
  ps_tensor *first;
  ps_tensor *second;
  char *error;
} ps_results;

typedef struct {
  ps_script *script;
  char *error;
} ps_script_result;

typedef struct {
  ps_upload *upload;
  char *error;
} ps_upload_result;

// The codes are pairstream's own and stay inside this package, so their values may change at any time.
enum ps_dtype { PS_FLOAT32, PS_FLOAT64, PS_BFLOAT16, PS_INT64, PS_BOOL, PS_UINT8, PS_FLOAT16, PS_OTHER };

enum ps_unary_op {
  PS_NEG, PS_EXP, PS_LOG, PS_SQRT, PS_SQUARE, PS_CONTIGUOUS, PS_DETACH,
  PS_SUM_ALL, PS_MEAN_ALL, PS_NOT, PS_ZEROS_LIKE,
  PS_CLAMP,                                                        // to [a, b]
  PS_ADD_SCALAR, PS_MUL_SCALAR,                                    // a
  PS_EQ_SCALAR,                                                    // a
  PS_TRIL, PS_DIAGONAL                                             // offset a
};

enum ps_binary_op {
  PS_ADD, PS_SUB, PS_MUL, PS_DIV, PS_MATMUL, PS_EQ, PS_GT, PS_GE, PS_AND, PS_OR
};

enum ps_dim_op {
  PS_SOFTMAX, PS_LOG_SOFTMAX, PS_ARGMAX, PS_UNSQUEEZE, PS_SQUEEZE,  // dim
  PS_SELECT,                                                        // dim, index a
  PS_NARROW,                                                        // dim, start a, length b
  PS_TRANSPOSE,                                                     // dim and a
  PS_SUM, PS_MEAN                                                   // dim, keep the dimension when a != 0
};

enum ps_shape_op { PS_RESHAPE, PS_PERMUTE, PS_EXPAND };
enum ps_index_op { PS_INDEX_SELECT, PS_GATHER };

// What networks multiply: float32, TensorFloat-32 on a GPU, or bfloat16.
enum ps_precision { PS_IN_FLOAT32, PS_IN_TF32, PS_IN_BFLOAT16 };

// Process and thread (device.hh, precision.hh).
void ps_prepare(void);  // before anything else, once
char *ps_init(const char *device, int threads, int deterministic, const char *multiplier);
int ps_cuda_available(void);
const char *ps_version(void);
char *ps_built(void);            // how libtorch was built, in its own words; caller frees
char *ps_blas(void);             // caller frees
const char *ps_multiplier(void);  // what multiplies float32 matrices on the CPU
int64_t ps_thread_mark(void);    // a number that differs between threads
int ps_set_grad(int enabled);    // returns the previous mode of this thread
int ps_set_precision(int to);    // of this thread's products, a ps_precision; returns the previous
void ps_set_portable(int on);    // whether libtorch's operations alone compute on this thread
char *ps_seed(uint64_t seed);    // of this thread's dropout; of everybody's on other devices

// Making tensors. The data is copied.
ps_result ps_from_data(const void *data, int dtype, const int64_t *dims, int n, const char *device);
ps_result ps_full(double value, int dtype, const int64_t *dims, int n, const char *device);
ps_result ps_arange(int64_t n, const char *device);
void ps_free(ps_tensor **tensors, int n);

// Making tensors ahead of their use (upload.hh), from any thread. Whoever started an upload either receives its tensor on
// the thread that computes, which ends it, or ends it without.
ps_upload_result ps_upload_start(const void *data, int dtype, const int64_t *dims, int n, const char *device);
// normal: NULL, or 255, mean and standard deviation for each of three channels. Then bytes [n, 3, h, w] become float32:
// (x / 255 - mean) / deviation.
ps_result ps_upload_receive(ps_upload *upload, const float *normal);
void ps_upload_free(ps_upload *upload);

// Looking at tensors.
int ps_dim(ps_tensor *x);
void ps_shape(ps_tensor *x, int64_t *dims);
int ps_dtype_of(ps_tensor *x);
char *ps_read(ps_tensor *x, int dtype, void *into);  // converts to dtype
char *ps_write(ps_tensor *x, const void *data, int dtype);
char *ps_copy(ps_tensor *into, ps_tensor *from);
char *ps_item(ps_tensor *x, double *into);

// Operations.
ps_result ps_unary(int op, ps_tensor *x, double a, double b);
ps_result ps_binary(int op, ps_tensor *x, ps_tensor *y);
ps_result ps_along(int op, ps_tensor *x, int64_t dim, int64_t a, int64_t b);
ps_result ps_reshape(int op, ps_tensor *x, const int64_t *dims, int n);
ps_result ps_index(int op, ps_tensor *x, int64_t dim, ps_tensor *index);
ps_result ps_cat(ps_tensor **xs, int n, int64_t dim);
ps_result ps_to(ps_tensor *x, int dtype);
ps_result ps_masked_fill(ps_tensor *x, ps_tensor *mask, double value);
ps_result ps_where(ps_tensor *condition, ps_tensor *yes, ps_tensor *no);
ps_results ps_topk(ps_tensor *x, int64_t k, int64_t dim);
ps_result ps_layer_norm(ps_tensor *x, ps_tensor *other, ps_tensor *weight, ps_tensor *bias, double eps);
ps_result ps_linear(ps_tensor *x, ps_tensor **weights, ps_tensor **biases, int n);  // results side by side
ps_result ps_gelu(ps_tensor *x, int quick);
ps_result ps_embedding(ps_tensor *weight, ps_tensor *ids, int64_t padding);
ps_result ps_normalize(ps_tensor *x, int64_t dim, double eps);
ps_result ps_cross_entropy(ps_tensor *logits, ps_tensor *targets, int64_t ignore);
ps_result ps_dropout(ps_tensor *x, double share);
ps_result ps_attention(ps_tensor *q, ps_tensor *packed, ps_tensor *mask, int64_t heads, double scale, double dropout);

// Selection (select.hh).
ps_result ps_max(ps_tensor *x, int64_t dim);  // the largest elements; the dimension disappears
ps_result ps_nonzero(ps_tensor *x);           // the places of elements that are not zero, in order: Int64 [found, dims]
char *ps_index_fill(ps_tensor *x, int64_t dim, ps_tensor *index, double value);               // in place
char *ps_index_add(ps_tensor *into, int64_t dim, ps_tensor *index, ps_tensor *values);        // in place

// Autograd and the optimiser.
char *ps_backward(ps_tensor *loss);
// The same, and calls pairstreamRunIsFinal(of, run) when the gradients of a run, and of those before, are final (backward.hh).
char *ps_backward_runs(ps_tensor *loss, ps_tensor **params, const int *run_of, int n, int runs, uintptr_t of);
int ps_requires_grad(ps_tensor *x);
char *ps_set_requires_grad(ps_tensor *x, int on);
ps_result ps_grad(ps_tensor *x);  // tensor NULL when there is none
char *ps_zero_grad(ps_tensor **xs, int n);
char *ps_set_grads(ps_tensor **xs, ps_tensor **grads, int n, double scale);  // to grads * scale

typedef struct {
  double rate, beta1, beta2, eps, weight_decay;
} ps_adamw_options;

char *ps_adamw(ps_tensor **params, ps_tensor **means, ps_tensor **squares, int64_t *steps, const uint8_t *decay, int n,
               ps_adamw_options options);

// Lists of tensors (lists.hh), in place. A device takes a list in a few kernels.
char *ps_add_lists(ps_tensor **into, ps_tensor **from, int n);                    // into += from
char *ps_average_lists(ps_tensor **into, ps_tensor **from, int n, double share);  // into = into * share + from * (1 - share)

// TorchScript.
ps_script_result ps_script_load(const char *path, const char *device);
ps_result ps_script_call(ps_script *module, const char *method, ps_tensor **xs, int n);
void ps_script_free(ps_script *module);

#ifdef __cplusplus
}
#endif

#endif
