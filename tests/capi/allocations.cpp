#include "tests/capi/allocations.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <string_view>

// AddressSanitizer has its own malloc, which stays: only new and delete are replaced then. gcc says
// so by a macro, clang by a feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1  // NOLINT(bugprone-reserved-identifier)
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ASSAY_MALLOC malloc
#define ASSAY_FREE free
#else
// glibc's own names for what this file replaces.
#define ASSAY_MALLOC __libc_malloc
#define ASSAY_FREE __libc_free
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<size_t> noted{0};
std::array<void*, 100000> callers;

std::atomic<int64_t> live{0};

std::atomic<int64_t> calls{0}, failing_call{0};
struct Code {
  std::atomic<uintptr_t> begin{0}, end{0};
};
constexpr std::array kLibraries{"libassay", "libstdc++", "libprotobuf"};
std::array<Code, kLibraries.size()> code_of_interest;

// Notes where the code of these libraries lies.
void find_code() {
  const auto look = [](dl_phdr_info* info, size_t, void*) {
    for (size_t k = 0; k < kLibraries.size(); ++k) {
      if (std::strstr(info->dlpi_name, kLibraries[k]) == nullptr) continue;
      for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
        code_of_interest[k].begin = info->dlpi_addr + segment.p_vaddr;
        code_of_interest[k].end = code_of_interest[k].begin + segment.p_memsz;
      }
    }
    return 0;
  };
  dl_iterate_phdr(look, nullptr);
}

// Digests of the paths of the allocations that count; 0: not followed.
std::atomic<bool> following{false};
std::array<size_t, 1000000> paths;

size_t path_from_here() {
  std::array<void*, 100> frames;
  const int n = backtrace(frames.data(), frames.size());
  const auto* const bytes = reinterpret_cast<const char*>(frames.data());
  return std::hash<std::string_view>()({bytes, static_cast<size_t>(n) * sizeof(void*)}) | 1;
}

bool fails(void* caller) {
  if (failing_call < 0) return false;
  const auto address = reinterpret_cast<uintptr_t>(caller);
  for (size_t k = 0; k < kLibraries.size(); ++k) {
    const Code& code = code_of_interest[k];
    if (address < code.begin || address >= code.end) continue;
    const int64_t number = ++calls;
    if (following && static_cast<size_t>(number) < paths.size())
      paths[static_cast<size_t>(number)] = path_from_here();
    return number == failing_call;
  }
  return false;
}

void note(void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  const size_t i = noted.fetch_add(1);
  if (i < callers.size()) callers[i] = caller;
}

// Counts a block that is there.
void* alive(void* memory) {
  if (memory != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  ASSAY_FREE(memory);
}

void* allocate(size_t size, void* caller) {
  note(caller);
  if (fails(caller)) throw std::bad_alloc();
  if (void* memory = alive(ASSAY_MALLOC(size))) return memory;
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
  if (code_of_interest[0].end == 0) find_code();
  failing_call = -1;
  following = false;
  const int64_t made = calls.exchange(0);
  failing_call = n;
  return made;
}

void assay::test::follow_paths() {
  path_from_here();  // the first time loads the unwinder
  fail_allocation(0);
  paths.fill(0);
  following = true;
}

std::vector<int64_t> assay::test::first_of_each_path() {
  std::set<size_t> seen;
  std::vector<int64_t> numbers;
  for (size_t number = 1; number < paths.size() && paths[number] != 0; ++number) {
    if (seen.insert(paths[number]).second) numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

int64_t assay::test::live_blocks() { return live; }

// Definitions in the program come before those of libc and libstdc++ for every library.
#pragma GCC visibility push(default)
#if defined(__SANITIZE_ADDRESS__)
// libprotobuf loses what a message held that was being copied when memory ended.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: its name is given
  return "leak:google::protobuf\n";
}
#else
extern "C" {
void* malloc(size_t size) {
  note(__builtin_return_address(0));
  return fails(__builtin_return_address(0)) ? nullptr : alive(__libc_malloc(size));
}
void* calloc(size_t count, size_t size) {
  note(__builtin_return_address(0));
  return fails(__builtin_return_address(0)) ? nullptr : alive(__libc_calloc(count, size));
}
void* realloc(void* memory, size_t size) {
  note(__builtin_return_address(0));
  if (fails(__builtin_return_address(0))) return nullptr;
  void* const moved = __libc_realloc(memory, size);
  return memory == nullptr ? alive(moved) : moved;
}
void* aligned_alloc(size_t alignment, size_t size) {
  note(__builtin_return_address(0));
  return fails(__builtin_return_address(0)) ? nullptr : alive(__libc_memalign(alignment, size));
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  note(__builtin_return_address(0));
  *memory = alive(__libc_memalign(alignment, size));
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) { release(memory); }
}
#endif

void* operator new(size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new(size_t size, const std::nothrow_t& /*tag*/) noexcept {
  note(__builtin_return_address(0));
  return fails(__builtin_return_address(0)) ? nullptr : alive(ASSAY_MALLOC(size));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
#pragma GCC visibility pop
