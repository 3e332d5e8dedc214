// Chooses the kernels this processor can run.
#include <cstdlib>
#include <string_view>

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
#endif

namespace {

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
#endif

const Kernels& choose() {
#ifdef ASSAY_KERNELS_X86_64
  const char* const variable = std::getenv("ASSAY_CPU_ISA");
  const std::string_view most = variable != nullptr ? variable : "";
  const bool baseline_only = most == "baseline";
  if (has_avx512() && !baseline_only && most != "avx2") return avx512::kTable;
  if (has_avx2() && !baseline_only) return avx2::kTable;
#endif
  return baseline::kTable;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace assay::cpu
