// Attention over heads in one call.
#include "guard.hpp"

using namespace pairstream;

namespace {

// heads_first turns [batch, length, heads*width] into [batch, heads, length, width].
at::Tensor heads_first(const at::Tensor &x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

}  // namespace

ps_result ps_attention(ps_tensor *query, ps_tensor *key, ps_tensor *value, ps_tensor *mask, int64_t heads,
                       double scale) {
  return result([&] {
    const at::Tensor &q = ref(query), &k = ref(key), &v = ref(value);
    TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3, "attention wants [batch, length, width], has ", q.sizes(),
                ", ", k.sizes(), ", ", v.sizes());
    TORCH_CHECK(heads > 0 && q.size(2) % heads == 0, "width ", q.size(2), " does not divide into ", heads, " heads");
    at::Tensor scores = at::matmul(heads_first(q, heads), heads_first(k, heads).transpose(2, 3)) * scale;
    if (mask != nullptr) {
      TORCH_CHECK(ref(mask).dim() == 3, "the mask wants [batch, queries, keys] (1: the same for all), has ",
                  ref(mask).sizes());
      scores = scores + ref(mask).unsqueeze(1);
    }
    at::Tensor mixed = at::matmul(at::softmax(scores, 3), heads_first(v, heads));
    return mixed.transpose(1, 2).reshape({q.size(0), q.size(1), q.size(2)});
  });
}
