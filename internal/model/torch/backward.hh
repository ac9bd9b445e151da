// Backward, which tells of gradients while it runs.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "guard.hpp"

using namespace pairstream;

extern "C" void pairstreamRunIsFinal(uintptr_t of, int run);  // in backward.go

namespace {

using torch::autograd::Node;

// runs counts the gradients that are missing in each run of parameters, and tells of a run when it has all, after the runs
// before it.
class runs {
 public:
  runs(int count, uintptr_t of) : missing_(static_cast<size_t>(count)), of_(of) {}

  void expect(int run) { missing_.at(static_cast<size_t>(run))++; }

  void arrived(int run) {
    const std::lock_guard<std::mutex> hold(mutex_);
    missing_[static_cast<size_t>(run)]--;
    tell();
  }

  // begin tells of the runs at the front that get no gradient.
  void begin() {
    const std::lock_guard<std::mutex> hold(mutex_);
    tell();
  }

 private:
  void tell() {
    for (; next_ < missing_.size() && missing_[next_] == 0; next_++) {
      pairstreamRunIsFinal(of_, static_cast<int>(next_));
    }
  }

  std::mutex mutex_;
  std::vector<int> missing_;
  size_t next_ = 0;
  uintptr_t of_;
};

// arrival runs behind the accumulation of a gradient. A pass accumulates each gradient once, when it is whole.
struct arrival : torch::autograd::FunctionPostHook {
  arrival(runs &to, int run) : to_(to), run_(run) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list &outputs,
                                            const torch::autograd::variable_list &) override {
    to_.arrived(run_);
    return outputs;
  }
  runs &to_;
  int run_;
};

// reached returns the nodes that a backward pass visits.
std::unordered_set<Node *> reached(const at::Tensor &loss) {
  std::unordered_set<Node *> seen;
  std::vector<Node *> open{torch::autograd::impl::gradient_edge(loss).function.get()};
  while (!open.empty()) {
    Node *node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) {
      continue;
    }
    for (const auto &edge : node->next_edges()) {
      open.push_back(edge.function.get());
    }
  }
  return seen;
}

// hooks are taken off at their end: a node outlives the pass.
struct hooks {
  ~hooks() {
    for (auto &[node, key] : on) {
      node->del_post_hook(key);
    }
  }
  // libtorch's pointer to a node is another one from version to version.
  using node_pointer = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor &>()));
  std::vector<std::pair<node_pointer, uintptr_t>> on;
};

}  // namespace

char *ps_backward_runs(ps_tensor *loss, ps_tensor **params, const int *run_of, int n, int count, uintptr_t of) {
  return guarded([&] {
    const auto nodes = reached(ref(loss));
    runs all(count, of);
    hooks held;
    for (int i = 0; i < n; i++) {
      auto node = torch::autograd::impl::grad_accumulator(ref(params[i]));
      if (nodes.count(node.get()) == 0) {
        continue;  // this pass has no gradient for it
      }
      all.expect(run_of[i]);
      const uintptr_t key = node->add_post_hook(std::make_unique<arrival>(all, run_of[i]));
      held.on.emplace_back(std::move(node), key);
    }
    all.begin();
    torch::autograd::backward({ref(loss)});
  });
}
