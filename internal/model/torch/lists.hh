// Lists of tensors at once. libtorch runs a list of a device's tensors in a few kernels. On the CPU it takes one after
// the other, with the bits of the single operations.
#include "guard.hpp"

using namespace pairstream;

namespace {

std::vector<at::Tensor> list_of(ps_tensor **handles, int n) {
  std::vector<at::Tensor> xs;
  for (int i = 0; i < n; i++) {
    xs.push_back(ref(handles[i]));
  }
  return xs;
}

// on_lists runs f without gradients, unless the lists are empty, which libtorch refuses.
template <typename F>
char *on_lists(int n, F f) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    if (n > 0) {
      f();
    }
  });
}

}  // namespace

char *ps_add_lists(ps_tensor **into, ps_tensor **from, int n) {
  return on_lists(n, [&] { at::_foreach_add_(list_of(into, n), list_of(from, n)); });
}

char *ps_average_lists(ps_tensor **into, ps_tensor **from, int n, double share) {
  return on_lists(n, [&] {
    const std::vector<at::Tensor> averages = list_of(into, n);
    const std::vector<at::Tensor> news = at::_foreach_mul(list_of(from, n), 1 - share);
    at::_foreach_mul_(averages, share);
    at::_foreach_add_(averages, news);
  });
}

char *ps_set_grads(ps_tensor **xs, ps_tensor **grads, int n, double scale) {
  return on_lists(n, [&] {
    const std::vector<at::Tensor> scaled = at::_foreach_mul(list_of(grads, n), scale);
    for (int i = 0; i < n; i++) {
      TORCH_CHECK(ref(xs[i]).sizes() == scaled[i].sizes(), "a gradient ", scaled[i].sizes(), " for ", ref(xs[i]).sizes());
      ref(xs[i]).mutable_grad() = scaled[i];
    }
  });
}
