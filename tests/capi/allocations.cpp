#include "tests/capi/allocations.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>

// glibc's own names for what this file replaces.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace {

std::atomic<bool> counting{false};
std::atomic<size_t> noted{0};
std::array<void*, 100000> callers;

std::atomic<int64_t> calls_of_assay{0}, failing_call{0};
std::atomic<uintptr_t> assay_begin{0}, assay_end{0};

// Notes where the code of libassay lies.
void find_assay() {
  const auto look = [](dl_phdr_info* info, size_t, void*) {
    if (std::strstr(info->dlpi_name, "libassay.so") == nullptr) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      assay_begin = info->dlpi_addr + segment.p_vaddr;
      assay_end = assay_begin + segment.p_memsz;
    }
    return 1;
  };
  dl_iterate_phdr(look, nullptr);
}

void fail_if_asked(void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address < assay_begin || address >= assay_end) return;
  if (++calls_of_assay == failing_call) throw std::bad_alloc();
}

void note(void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  const size_t i = noted.fetch_add(1);
  if (i < callers.size()) callers[i] = caller;
}

void* allocate(size_t size) {
  if (void* memory = __libc_malloc(size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void assay::test::start_counting() {
  noted = 0;
  counting = true;
}

std::map<std::string, int64_t> assay::test::stop_counting() {
  counting = false;
  std::map<std::string, int64_t> counts;
  for (size_t i = 0; i < std::min(noted.load(), callers.size()); ++i) {
    Dl_info info;
    std::string name = dladdr(callers[i], &info) != 0 ? info.dli_fname : "unknown";
    name.erase(0, name.rfind('/') + 1);
    ++counts[name.substr(0, name.find(".so"))];
  }
  return counts;
}

int64_t assay::test::fail_allocation(int64_t n) {
  if (assay_end == 0) find_assay();
  failing_call = 0;
  const int64_t calls = calls_of_assay.exchange(0);
  failing_call = n;
  return calls;
}

// Definitions in the program come before those of libc and libstdc++ for every library.
extern "C" {
void* malloc(size_t size) {
  note(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  note(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  note(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  note(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  note(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? 12 : 0;
}
void free(void* memory) { __libc_free(memory); }
}

void* operator new(size_t size) {
  note(__builtin_return_address(0));
  fail_if_asked(__builtin_return_address(0));
  return allocate(size);
}
void* operator new[](size_t size) {
  note(__builtin_return_address(0));
  fail_if_asked(__builtin_return_address(0));
  return allocate(size);
}
void operator delete(void* memory) noexcept { __libc_free(memory); }
void operator delete(void* memory, size_t) noexcept { __libc_free(memory); }
void operator delete[](void* memory) noexcept { __libc_free(memory); }
void operator delete[](void* memory, size_t) noexcept { __libc_free(memory); }
