// Memory of the device, which is the host's, and how the processor computes on it.
#ifndef PAIRSTREAM_TESTDEVICE_MEMORY_HPP
#define PAIRSTREAM_TESTDEVICE_MEMORY_HPP

#include <mutex>
#include <unordered_map>

#include "counts.hpp"

namespace testdevice {

inline c10::DataPtr moved(c10::DataPtr data, c10::Device to) {
  void *at = data.get();
  const auto free = data.get_deleter();
  return {at, data.release_context(), free, to};
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t n) const override { return moved(c10::GetCPUAllocator()->allocate(n), kHere); }
};

inline c10::Allocator &memory() {
  static Memory one;
  return one;
}

// Blocks are those of pinned memory, by their address. Memory that was freed and is given out again as pageable stays in it
// until then: a test that counts must not depend on it.
struct Blocks {
  std::mutex mutex;
  std::unordered_map<const void *, size_t> pinned;
};

inline Blocks &blocks() {
  static auto *one = new Blocks;
  return *one;
}

inline void unpin(void *at) {
  Blocks &b = blocks();
  {
    const std::lock_guard<std::mutex> hold(b.mutex);
    b.pinned.erase(at);
  }
  std::free(at);
}

struct Pinned final : c10::Allocator {
  c10::DataPtr allocate(size_t n) const override {
    void *at = std::aligned_alloc(64, (n + 64) / 64 * 64);
    TORCH_CHECK(at != nullptr, "no memory for ", n, " bytes");
    Blocks &b = blocks();
    const std::lock_guard<std::mutex> hold(b.mutex);
    b.pinned[at] = n;
    return {at, at, &unpin, c10::Device(c10::kCPU)};
  }
};

inline bool is_pinned(const void *at) {
  Blocks &b = blocks();
  const std::lock_guard<std::mutex> hold(b.mutex);
  return b.pinned.count(at) > 0;
}

// PinnedMemory takes the place of CUDA's, which libtorch asks for pinned memory.
struct PinnedMemory final : at::CUDAHooksInterface {
  c10::Allocator *getPinnedMemoryAllocator() const override {
    static Pinned one;
    return &one;
  }
  bool isPinnedPtr(void *at) const override { return is_pinned(at); }
};

// on_cpu returns a tensor of the processor over the same memory.
inline at::Tensor on_cpu(const at::Tensor &t) {
  if (!here(t)) {
    return t;
  }
  return at::from_blob(t.data_ptr(), t.sizes(), t.strides(), at::TensorOptions().dtype(t.scalar_type()));
}

inline at::Tensor on_device(const at::Tensor &t) {
  if (!t.defined()) {
    return t;
  }
  at::Tensor to = at::detail::empty_strided_generic(t.sizes(), t.strides(), &memory(),
                                                    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), t.scalar_type());
  on_cpu(to).copy_(t);
  return to;
}

// grow gives a tensor another size, and more memory where it has too little.
inline void grow(const at::Tensor &self, at::IntArrayRef size) {
  auto *impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const size_t want = static_cast<size_t>(impl->numel() + impl->storage_offset()) * impl->itemsize();
  auto *storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (want > storage->nbytes()) {
    c10::DataPtr more = memory().allocate(want);
    if (storage->nbytes() > 0) {
      std::memcpy(more.get(), storage->data(), storage->nbytes());
    }
    storage->set_data_ptr(std::move(more));
    storage->set_nbytes(want);
  }
}

using Written = std::vector<std::pair<at::Tensor, at::Tensor>>;

// tensor_on_cpu is on_cpu for an argument. One that is empty and written to may grow, which borrowed memory cannot.
inline at::Tensor tensor_on_cpu(const at::Tensor &t, bool writes, Written &written) {
  if (!t.defined()) {
    return t;
  }
  at::Tensor there = writes && here(t) && t.numel() == 0 ? at::empty({0}, at::TensorOptions().dtype(t.scalar_type())) : on_cpu(t);
  if (writes) {
    written.emplace_back(t, there);
  }
  return there;
}

inline c10::IValue value_on_cpu(const c10::IValue &v, bool writes, Written &written) {
  if (v.isTensor()) {
    return tensor_on_cpu(v.toTensor(), writes, written);
  }
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &t : v.toTensorVector()) {
      list.push_back(tensor_on_cpu(t, writes, written));
    }
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<c10::optional<at::Tensor>> list;
    for (const auto &t : v.toOptionalTensorVector()) {
      list.push_back(t.has_value() ? c10::optional<at::Tensor>(on_cpu(*t)) : c10::nullopt);
    }
    return list;
  }
  if (v.isDevice()) {
    return c10::Device(c10::kCPU);
  }
  return v;
}

// take_back gives what has grown to the device's tensor.
inline void take_back(const Written &written) {
  for (const auto &[there, cpu] : written) {
    if (there.numel() == 0 && cpu.numel() > 0) {
      grow(there, cpu.sizes());
      on_cpu(there).copy_(cpu);
    } else if (there.sizes() != cpu.sizes()) {
      grow(there, cpu.sizes());
    }
  }
}

inline c10::IValue value_on_device(const c10::IValue &v, Work &work) {
  if (v.isTensor()) {
    work.bytes += v.toTensor().defined() ? static_cast<double>(v.toTensor().nbytes()) : 0;
    return on_device(v.toTensor());
  }
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &t : v.toTensorVector()) {
      work.bytes += static_cast<double>(t.nbytes());
      list.push_back(on_device(t));
    }
    return list;
  }
  return v;
}

}  // namespace testdevice

#endif
