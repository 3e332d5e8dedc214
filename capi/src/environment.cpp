// Version, and what results depend on besides their inputs.
#include <sys/utsname.h>

#include <fstream>
#include <sstream>

#include "capi/src/abi.h"
#include "capi/src/context.h"
#include "capi/src/report_parts.h"
#include "sdk/base/version.h"

namespace assay::capi {
namespace {

// The processor's features that kernels are chosen by, as the kernel lists them.
void add_cpu_flags(EnvironmentReport& report) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(line.substr(std::min(line.find(':') + 1, line.size())));
    for (std::string flag; flags >> flag;) {
      const bool matters = flag.starts_with("sse") || flag.starts_with("avx") ||
                           flag.starts_with("amx") || flag == "fma" || flag == "f16c";
      if (matters) report.add_cpu_flags(flag);
    }
    return;
  }
}

EnvironmentReport environment(const Context& context) {
  EnvironmentReport report;
  report.set_library_version(std::string(kLibraryVersion));
  report.set_abi_version(cat(ASSAY_ABI_VERSION >> 16, ".", ASSAY_ABI_VERSION & 0xffff));
#if defined(__clang__)
  report.set_compiler("clang " __clang_version__);
#else
  report.set_compiler("gcc " __VERSION__);
#endif
  report.set_build_type(ASSAY_BUILD_TYPE);
#ifndef NDEBUG
  report.set_assertions(true);
#endif
  set_device(*report.mutable_device(), context.backend()->info());
  add_cpu_flags(report);
  utsname system{};
  if (uname(&system) == 0) {
    report.set_operating_system(cat(std::string(system.sysname), " ", std::string(system.release)));
    report.set_machine(system.machine);
  }
  return report;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

uint32_t assay_abi_version(void) { return ASSAY_ABI_VERSION; }

assay_str assay_version_string(void) { return to_str(kLibraryVersion); }

assay_str assay_status_name(assay_status status) {
  return to_str(code_name(static_cast<Code>(status)));
}

assay_status assay_env_report(const assay_context* c, assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = new_report(environment(*not_null(c, "c").impl));
  });
}
