// Chooses the kernels this processor can run.
#include <cstdlib>
#include <string_view>

#ifdef ASSAY_KERNELS_X86_64
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "sdk/backend/cpu/kernels/kernels.h"

namespace assay::cpu {

namespace baseline {
extern const Kernels kTable;
}
#ifdef ASSAY_KERNELS_X86_64
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
namespace amx {
extern const AttentionKernels kAttention;
extern const PanelProductKernels kTileProduct;
}  // namespace amx
#endif

namespace {

// The most of the instruction sets that may be used; "" is all.
std::string_view most() {
  const char* const variable = std::getenv("ASSAY_CPU_ISA");
  return variable != nullptr ? variable : "";
}

#ifdef ASSAY_KERNELS_X86_64
// What the flags -march=x86-64-v3 and -v4 let the compiler use.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

// Linux gives a process the large state of tile registers when it asks for it.
bool has_tiles() {
  constexpr unsigned kAvx512Bf16 = 1u << 5;                  // CPUID 7.1 EAX
  constexpr unsigned kAmxBf16AndTile = 1u << 22 | 1u << 24;  // CPUID 7.0 EDX
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0, a1 = 0;
  if (!has_avx512() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ||
      __get_cpuid_count(7, 1, &a1, &b, &c, &b) == 0)
    return false;
  return (d & kAmxBf16AndTile) == kAmxBf16AndTile && (a1 & kAvx512Bf16) != 0 &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool uses_tiles() {
  static const bool kAvailable = most().empty() && has_tiles();
  return kAvailable;
}
#endif

const Kernels& choose() {
#ifdef ASSAY_KERNELS_X86_64
  const bool baseline_only = most() == "baseline";
  if (has_avx512() && !baseline_only && most() != "avx2") return avx512::kTable;
  if (has_avx2() && !baseline_only) return avx2::kTable;
#endif
  return baseline::kTable;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

#ifdef ASSAY_KERNELS_X86_64
const AttentionKernels* tile_attention() { return uses_tiles() ? &amx::kAttention : nullptr; }
const PanelProductKernels* tile_products() { return uses_tiles() ? &amx::kTileProduct : nullptr; }
#else
const AttentionKernels* tile_attention() { return nullptr; }
const PanelProductKernels* tile_products() { return nullptr; }
#endif

}  // namespace assay::cpu
