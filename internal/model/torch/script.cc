//go:build !torchbindings

// TorchScript, in a file of its own because its header is slow to compile.
#include <torch/script.h>

#include "guard.hpp"

using namespace pairstream;

namespace {

torch::jit::Module &module_of(ps_script *m) { return *reinterpret_cast<torch::jit::Module *>(m); }

}  // namespace

ps_script_result ps_script_load(const char *path, const char *device) {
  ps_script_result r{nullptr, nullptr};
  r.error = guarded([&] {
    auto *m = new torch::jit::Module(torch::jit::load(std::string(path), at::Device(std::string(device))));
    m->eval();
    r.script = reinterpret_cast<ps_script *>(m);
  });
  return r;
}

ps_result ps_script_call(ps_script *module, const char *method, ps_tensor **xs, int n) {
  return result([&] {
    auto found = module_of(module).find_method(method);
    TORCH_CHECK(found.has_value(), "the module has no method ", method);
    std::vector<torch::jit::IValue> arguments;
    for (int i = 0; i < n; i++) {
      arguments.emplace_back(ref(xs[i]));
    }
    torch::jit::IValue out = (*found)(std::move(arguments));
    TORCH_CHECK(out.isTensor(), "method ", method, " gives ", out.tagKind(), ", want a tensor");
    return out.toTensor();
  });
}

void ps_script_free(ps_script *module) { delete reinterpret_cast<torch::jit::Module *>(module); }
