// Apart from the tests: where these are inlined, gcc takes malloc and delete for a mismatch.
#include "tests/data/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0}, failing{-1};
}

int64_t assay::test::allocations_so_far() { return allocations; }

void assay::test::fail_allocation(int64_t after) { failing = allocations + after + 1; }

void* operator new(size_t bytes) {
  if (++allocations == failing) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort takes its buffer with this one; a sanitizer would pair it with its own delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return ++allocations == failing ? nullptr : std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
