// Finding elements, and changing some of them in place. The operations are libtorch's own, on every device.
#include "guard.hpp"

using namespace pairstream;

ps_result ps_max(ps_tensor *x, int64_t dim) {
  return result([&] { return at::amax(ref(x), at::IntArrayRef(dim)); });
}

ps_result ps_nonzero(ps_tensor *x) {
  return result([&] { return at::nonzero(ref(x)); });
}

char *ps_index_fill(ps_tensor *x, int64_t dim, ps_tensor *index, double value) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    at::Tensor into = ref(x);
    into.index_fill_(dim, ref(index), value);
  });
}

char *ps_index_add(ps_tensor *into, int64_t dim, ps_tensor *index, ps_tensor *values) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    at::Tensor sums = ref(into);
    sums.index_add_(dim, ref(index), ref(values));
  });
}
