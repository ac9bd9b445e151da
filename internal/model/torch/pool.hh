// Why not libtorch's own pool: there every thread gets its share beforehand and the operation ends with the slowest. On
// a machine with more to do than cores, a thread that waits for its turn makes each of the thousand operations of a
// training step wait; that was measured as a factor of twenty.
#include "pool.hpp"

#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pairstream {
namespace {

// Between the operations of a step lie microseconds: it pays to look for work that long before going to sleep.
constexpr int kSpins = 1000;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

struct Job {
  void (*call)(void *, int64_t);
  void *arg;
  int64_t n;
  std::atomic<int64_t> next{0};
  std::once_flag failed;
  std::exception_ptr error;

  void work() {
    for (int64_t i = next++; i < n; i = next++) {
      try {
        call(arg, i);
      } catch (...) {
        std::call_once(failed, [&] { error = std::current_exception(); });
      }
    }
  }
};

// BLAS libraries that would start threads of their own inside a part are told not to, thread by thread.
void work_alone() {
  using set_fn = void (*)(int);
  if (auto set = reinterpret_cast<set_fn>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    set(1);
  }
}

class Pool {
 public:
  // resize is called while no job runs.
  void resize(int threads) {
    std::lock_guard<std::mutex> one(running_);
    std::unique_lock<std::mutex> lock(mutex_);
    wanted_ = threads - 1;
    generation_++;
    wake_.notify_all();
    idle_.wait(lock, [&] { return helpers_ <= wanted_; });
    for (; helpers_ < wanted_; helpers_++) {
      std::thread([this, number = helpers_] { help(number); }).detach();
    }
  }

  void run(Job &job) {
    std::unique_lock<std::mutex> one(running_, std::try_to_lock);
    if (!one.owns_lock() || job.n < 2) {  // another worker has the helpers
      job.work();
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = &job;
      generation_++;
    }
    wake_.notify_all();
    job.work();
    // No helper begins once job_ is gone; those that have begun are waited for, because the job is on this stack.
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = nullptr;
    for (int i = 0; i < kSpins && active_ > 0; i++) {
      lock.unlock();
      pause();
      lock.lock();
    }
    idle_.wait(lock, [&] { return active_ == 0; });
  }

 private:
  void help(int number) {
    work_alone();
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; i++) {
        pause();
      }
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return number >= wanted_ || (job_ != nullptr && generation_ != seen); });
      if (number >= wanted_) {
        helpers_--;
        idle_.notify_all();
        return;
      }
      seen = generation_;
      Job *job = job_;
      active_++;
      lock.unlock();
      job->work();
      lock.lock();
      if (--active_ == 0) {
        idle_.notify_all();
      }
    }
  }

  std::mutex running_;  // held by the caller whose job the helpers work on
  std::mutex mutex_;    // guards what follows
  std::condition_variable wake_, idle_;
  std::atomic<uint64_t> generation_{0};  // of jobs; also read without the mutex
  Job *job_ = nullptr;
  int helpers_ = 0, wanted_ = 0, active_ = 0;
};

// pool is never destroyed: helpers may outlive main.
Pool &pool() {
  static Pool *p = new Pool;
  return *p;
}

}  // namespace

void start_pool(int threads) {
  work_alone();
  pool().resize(threads);
}

void parallel_raw(int64_t n, void (*call)(void *, int64_t), void *arg) {
  Job job{call, arg, n};
  pool().run(job);
  if (job.error) {
    std::rethrow_exception(job.error);
  }
}

}  // namespace pairstream
