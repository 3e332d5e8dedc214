#include "tests/gpu/emulation/cuda_emulation.h"

#include <setjmp.h>
#include <ucontext.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "sdk/base/bfloat16.h"
#include "sdk/base/float16.h"
#include "tests/gpu/emulation/runtime.h"

namespace assay::cuda::emulation {
namespace {

constexpr size_t kStackBytes = 64 * 1024;

[[noreturn]] void stop(const char* message) {
  std::fprintf(stderr, "CUDA emulation: %s\n", message);
  std::abort();
}

// A stack on which threads run. One that ends its thread without a barrier takes the next, so that
// kernels without barriers need one fiber and no switches. Switches are jumps: swapcontext would
// make two system calls for each.
struct Fiber {
  ucontext_t start{};
  jmp_buf place;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool started = false;
  dim3 index{0, 0};  // of its thread
};

class Block {
 public:
  void run(dim3 shape, unsigned order, const std::function<void()>& thread) {
    thread_ = &thread;
    shape_ = shape;
    order_ = order;
    next_ = ended_ = 0;
    waiting_.clear();
    while (next_ < size()) resume(free_fiber());
    while (!waiting_.empty()) {
      if (ended_ != 0) stop("a barrier that some threads of the block never reach");
      std::vector<Fiber*> ready = std::move(waiting_);
      waiting_.clear();
      ++order_;
      for (size_t i = 0; i < ready.size(); ++i) resume(*ready[permuted(i, ready.size())]);
    }
  }

  void wait_at_barrier() {
    Fiber& self = *running_;
    waiting_.push_back(&self);
    if (_setjmp(self.place) == 0) _longjmp(scheduler_, 1);
  }

  static Block& instance() {
    static Block block;
    return block;
  }

 private:
  size_t size() const { return static_cast<size_t>(shape_.x) * shape_.y; }

  Fiber& free_fiber() {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      free_.push_back(fibers_.back().get());
    }
    Fiber& fiber = *free_.back();
    free_.pop_back();
    return fiber;
  }

  // Lets the fiber go on until it waits or has nothing left to do.
  void resume(Fiber& fiber) {
    running_ = &fiber;
    threadIdx = fiber.index;
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.start, &Block::work, 0);
    setcontext(&fiber.start);
  }

  // The life of a fiber.
  static void work() {
    Block& block = instance();
    Fiber& self = *block.running_;
    for (;;) {
      while (block.next_ < block.size()) {
        const size_t i = permuted_in(block.order_, block.next_++, block.size());
        self.index = dim3(static_cast<unsigned>(i % block.shape_.x),
                          static_cast<unsigned>(i / block.shape_.x));
        threadIdx = self.index;
        (*block.thread_)();
        ++block.ended_;
      }
      block.free_.push_back(&self);
      if (_setjmp(self.place) == 0) _longjmp(block.scheduler_, 1);
    }
  }

  // A permutation: forwards, backwards, or rotated by a third.
  static size_t permuted_in(unsigned order, size_t i, size_t n) {
    if (order % 3 == 1) return n - 1 - i;
    return order % 3 == 2 ? (i + n / 3) % n : i;
  }
  size_t permuted(size_t i, size_t n) const { return permuted_in(order_, i, n); }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_, waiting_;
  jmp_buf scheduler_;
  Fiber* running_ = nullptr;
  const std::function<void()>* thread_ = nullptr;
  dim3 shape_{1, 1};
  unsigned order_ = 0;
  size_t next_ = 0, ended_ = 0;
};

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  static unsigned launches = 0;  // work of all streams runs under one lock
  ++launches;
  gridDim = grid;
  blockDim = block;
  const uint64_t n = static_cast<uint64_t>(grid.x) * grid.y;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t at = launches % 2 == 0 ? i : n - 1 - i;
    blockIdx = dim3(static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x));
    Block::instance().run(block, launches, thread);
  }
}

}  // namespace

void run(CUstream_st* stream, dim3 grid, dim3 block, const std::function<void()>& thread) {
  if (block.x * block.y == 0 || block.x * block.y > 1024 || grid.x == 0 || grid.y == 0 ||
      grid.y > 65535) {
    stop("a launch that no device accepts");
  }
  begin_launch();
  enqueue(stream, [=] { run_grid(grid, block, thread); });
}

uint16_t to_bf16(float value) { return Bfloat16(value).bits; }
float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t to_f16(float value) { return Float16(value).bits; }
float from_f16(uint16_t bits) {
  Float16 half;
  half.bits = bits;
  return static_cast<float>(half);
}

}  // namespace assay::cuda::emulation

void __syncthreads() { assay::cuda::emulation::Block::instance().wait_at_barrier(); }
