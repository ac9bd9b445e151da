// One AdamW step over all parameters.
#include <algorithm>
#include <cmath>
#include <map>

#include "guard.hpp"
#include "kernels.hpp"
#include "pool.hpp"

using namespace pairstream;

namespace {

// Factors are what one parameter's update needs beside its own data.
struct Factors {
  double decay;      // the parameter is multiplied by it first
  double step_size;  // rate / (1 - beta1^step)
  double root;       // sqrt(1 - beta2^step)
};

Factors factors(const ps_adamw_options &o, int64_t step, bool decay) {
  double steps = static_cast<double>(step);
  return {decay ? 1 - o.rate * o.weight_decay : 1, o.rate / (1 - std::pow(o.beta1, steps)),
          std::sqrt(1 - std::pow(o.beta2, steps))};
}

// update runs over elements [from, to): every element is read and written once, whatever the number of threads.
template <typename T>
void update(T *p, T *m, T *v, const T *g, int64_t from, int64_t to, const Factors &f, const ps_adamw_options &o) {
  const T decay = f.decay, size = f.step_size, root = 1 / f.root, eps = o.eps;
  const T b1 = o.beta1, b2 = o.beta2, c1 = 1 - o.beta1, c2 = 1 - o.beta2;
  for (int64_t i = from; i < to; i++) {
    T mean = b1 * m[i] + c1 * g[i];
    T square = b2 * v[i] + c2 * g[i] * g[i];
    m[i] = mean;
    v[i] = square;
    p[i] = decay * p[i] - size * mean / (std::sqrt(square) * root + eps);
  }
}

template <typename T>
void update_on_cpu(const at::Tensor &p, const at::Tensor &m, const at::Tensor &v, const at::Tensor &g, const Factors &f,
                   const ps_adamw_options &o) {
  T *pp = p.data_ptr<T>(), *mp = m.data_ptr<T>(), *vp = v.data_ptr<T>();
  const T *gp = g.data_ptr<T>();
  const int64_t n = p.numel();
  parallel((n + kPart - 1) / kPart, [&](int64_t part) {
    update<T>(pp, mp, vp, gp, part * kPart, std::min(n, (part + 1) * kPart), f, o);
  });
}

#if !PS_LIBTORCH(2, 4)
// update_anywhere is the same update in libtorch's operations, for devices without the loop above.
void update_anywhere(at::Tensor p, at::Tensor m, at::Tensor v, const at::Tensor &g, const Factors &f,
                     const ps_adamw_options &o) {
  p.mul_(f.decay);
  m.mul_(o.beta1).add_(g, 1 - o.beta1);
  v.mul_(o.beta2).addcmul_(g, g, 1 - o.beta2);
  p.addcdiv_(m, v.sqrt().div_(f.root).add_(o.eps), -f.step_size);
}
#endif

// Lists are the tensors of parameters with one number of steps and one decay.
struct Lists {
  std::vector<at::Tensor> params, grads, means, squares;
};

using Groups = std::map<std::pair<int64_t, bool>, Lists>;

// update_groups is the same update, for a list of parameters at once where libtorch can.
void update_groups(const Groups &groups, const ps_adamw_options &o) {
  for (const auto &[key, l] : groups) {
    const auto [step, decay] = key;
#if PS_LIBTORCH(2, 4)
    const at::Tensor steps = at::full({}, step, l.params[0].options().dtype(at::kFloat).requires_grad(false));
    at::_fused_adamw_(l.params, l.grads, l.means, l.squares, {}, std::vector<at::Tensor>(l.params.size(), steps), o.rate,
                      o.beta1, o.beta2, decay ? o.weight_decay : 0.0, o.eps, false, false);
#else
    for (size_t i = 0; i < l.params.size(); i++) {
      update_anywhere(l.params[i], l.means[i], l.squares[i], l.grads[i], factors(o, step, decay), o);
    }
#endif
  }
}

}  // namespace

char *ps_adamw(ps_tensor **params, ps_tensor **means, ps_tensor **squares, int64_t *steps, const uint8_t *decay, int n,
               ps_adamw_options options) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    Groups groups;
    for (int i = 0; i < n; i++) {
      const at::Tensor &p = ref(params[i]), &m = ref(means[i]), &v = ref(squares[i]);
      if (!p.grad().defined()) {
        continue;
      }
      at::Tensor g = p.grad().contiguous();
      const int64_t step = ++steps[i];
      const Factors f = factors(options, step, decay[i] != 0);
      if (fits(p) && g.scalar_type() == at::kFloat) {
        update_on_cpu<float>(p, m, v, g, f, options);
      } else if (p.is_cpu() && p.scalar_type() == at::kDouble && p.is_contiguous() && g.scalar_type() == at::kDouble) {
        update_on_cpu<double>(p, m, v, g, f, options);
      } else {
        Lists &l = groups[{step, decay[i] != 0}];
        l.params.push_back(p);
        l.grads.push_back(g);
        l.means.push_back(m);
        l.squares.push_back(v);
      }
    }
    update_groups(groups, options);
  });
}
