// Reads /proc, /sys and the cgroup; what is not there stays empty.
#include "tools/recipe_run/record/machine.h"

#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/text.h"

extern char** environ;

namespace reciperun {
namespace {

namespace fs = std::filesystem;

// Whole content without the last newline; "" if unreadable.
std::string slurp(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  std::string text = std::move(out).str();
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

// The value of the first "name<separator>value" line.
std::string field_of(const std::string& text, const std::string& name, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(separator);
    if (at == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    if (line.find_first_not_of(" \t", name.size()) != at) continue;
    const size_t start = line.find_first_not_of(" \t\"", at + 1);
    if (start == std::string::npos) return "";
    return line.substr(start, line.find_last_not_of(" \"") + 1 - start);
  }
  return "";
}

void read_cpu(const fs::path& root, record::Machine& out) {
  const std::string info = slurp(root / "proc/cpuinfo");
  out.set_cpu(field_of(info, "model name", ':'));
  out.set_microcode(field_of(info, "microcode", ':'));
  std::set<std::string> sockets;
  std::set<std::string> cores;
  std::istringstream lines(info);
  std::string socket;
  uint32_t threads = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string value = line.substr(std::min(line.size(), line.find(':') + 1));
    if (line.rfind("processor", 0) == 0) ++threads;
    if (line.rfind("physical id", 0) == 0) sockets.insert(socket = value);
    if (line.rfind("core id", 0) == 0) cores.insert(socket + "/" + value);
  }
  out.set_threads(threads);
  out.set_sockets(std::max<uint32_t>(1, static_cast<uint32_t>(sockets.size())));
  out.set_cores(cores.empty() ? threads : static_cast<uint32_t>(cores.size()));
  const std::string flags = " " + field_of(info, "flags", ':') + " ";
  for (const char* isa : {"avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                          "amx_tile", "amx_bf16"}) {
    if (flags.find(" " + std::string(isa) + " ") != std::string::npos) out.add_isa(isa);
  }
  if (flags.find(" hypervisor ") != std::string::npos) {
    const std::string kind = slurp(root / "sys/hypervisor/type");
    out.set_hypervisor(kind.empty() ? "yes" : kind);
  }
}

void read_caches(const fs::path& root, record::Machine& out) {
  for (int i = 0; i < 8; ++i) {
    const fs::path folder = root / "sys/devices/system/cpu/cpu0/cache" / fmt::format("index{}", i);
    const std::string size = slurp(folder / "size");
    if (size.empty()) break;
    record::Cache& cache = *out.add_cache();
    cache.set_level(static_cast<uint32_t>(std::atoi(slurp(folder / "level").c_str())));
    cache.set_type(slurp(folder / "type"));
    const uint64_t unit = size.back() == 'K' ? 1024 : size.back() == 'M' ? 1024 * 1024 : 1;
    cache.set_bytes(std::strtoull(size.c_str(), nullptr, 10) * unit);
  }
}

void read_frequency(const fs::path& root, record::Machine& out) {
  const fs::path cpu = root / "sys/devices/system/cpu";
  out.set_governor(slurp(cpu / "cpu0/cpufreq/scaling_governor"));
  out.set_smt(slurp(cpu / "smt/control"));
  const std::string no_turbo = slurp(cpu / "intel_pstate/no_turbo");
  const std::string boost = slurp(cpu / "cpufreq/boost");
  if (!no_turbo.empty()) out.set_turbo(no_turbo == "0" ? "on" : "off");
  if (no_turbo.empty() && !boost.empty()) out.set_turbo(boost == "1" ? "on" : "off");
  out.set_clock_source(
      slurp(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"));
  uint32_t nodes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("node", 0) == 0 && name.size() > 4 &&
        std::isdigit(static_cast<unsigned char>(name[4])))
      ++nodes;
  }
  out.set_numa_nodes(std::max(1u, nodes));
}

void read_limits(const fs::path& root, record::Machine& out) {
  const std::string memory = field_of(slurp(root / "proc/meminfo"), "MemTotal", ':');
  out.set_memory_bytes(std::strtoull(memory.c_str(), nullptr, 10) * 1024);
  double quota = -1;
  double period = 0;
  if (std::istringstream max(slurp(root / "sys/fs/cgroup/cpu.max")); max >> quota >> period)
    out.set_cgroup_cpus(quota / period);
  quota = std::atof(slurp(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str());
  period = std::atof(slurp(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str());
  if (quota > 0 && period > 0) out.set_cgroup_cpus(quota / period);
  std::string limit = slurp(root / "sys/fs/cgroup/memory.max");
  if (limit.empty()) limit = slurp(root / "sys/fs/cgroup/memory/memory.limit_in_bytes");
  const uint64_t bytes = std::strtoull(limit.c_str(), nullptr, 10);
  if (bytes > 0 && bytes < uint64_t{1} << 60) out.set_cgroup_memory_bytes(bytes);
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    out.set_threads_allowed(static_cast<uint32_t>(CPU_COUNT(&allowed)));
}

void read_software(const fs::path& root, record::Machine& out) {
  utsname name = {};
  if (uname(&name) == 0)
    out.set_kernel(std::string(name.sysname) + " " + name.release + " " + name.machine);
  out.set_os(field_of(slurp(root / "etc/os-release"), "PRETTY_NAME", '='));
  out.set_libc(std::string("glibc ") + gnu_get_libc_version());
  out.set_container(is_there(root / ".dockerenv") || is_there(root / "run/.containerenv"));
  const std::string id = slurp(root / "etc/machine-id");
  if (!id.empty()) out.set_host_hash(sha256_hex(id).substr(0, 16));
  out.set_load_average(std::atof(slurp(root / "proc/loadavg").c_str()));
  static constexpr std::array kPrefixes = {"OMP_",    "KMP_",    "GOMP_", "DNNL_",
                                           "ONEDNN_", "MALLOC_", "ASSAY_"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    const bool wanted = std::any_of(kPrefixes.begin(), kPrefixes.end(),
                                    [&](const char* p) { return text.rfind(p, 0) == 0; });
    if (wanted && equals != std::string::npos)
      (*out.mutable_environment())[text.substr(0, equals)] = text.substr(equals + 1);
  }
}

}  // namespace

record::Machine capture_machine(const fs::path& root) {
  record::Machine out;
  out.set_captured(utc_now());
  read_cpu(root, out);
  read_caches(root, out);
  read_frequency(root, out);
  read_limits(root, out);
  read_software(root, out);
  return out;
}

std::string machine_digest(const record::Machine& machine) {
  std::string facts = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", machine.cpu(), machine.threads(),
      machine.threads_allowed(), shortest(machine.cgroup_cpus()), machine.memory_bytes(),
      machine.governor(), machine.turbo(), machine.microcode(), machine.kernel());
  if (!machine.gpu().empty())
    facts += fmt::format("\n{}\n{}", machine.gpu(), machine.gpu_libraries());
  return sha256_hex(facts).substr(0, 16);
}

std::string machine_title(const record::Machine& machine) {
  const double gib = static_cast<double>(machine.memory_bytes()) / (1u << 30);
  return fmt::format(
      "{}{}, {} of {} threads{}, {} GiB", machine.gpu().empty() ? "" : machine.gpu() + ", ",
      machine.cpu().empty() ? "unknown CPU" : machine.cpu(), machine.threads_allowed(),
      machine.threads(),
      machine.cgroup_cpus() > 0 ? fmt::format(" (limited to {})", shortest(machine.cgroup_cpus()))
                                : "",
      fixed(gib, 0));
}

HostWatch::HostWatch(bool siblings, fs::path root)
    : siblings_(siblings), root_(std::move(root)), start_(read()) {}

// CPU seconds of the other processes that have the same parent.
double HostWatch::siblings_seconds() const {
  double ticks = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root_ / "proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos ||
        name == std::to_string(getpid()))
      continue;
    // "12 (name) S parent ..."; utime and stime are the 14th and 15th field
    const std::string stat = slurp(entry.path() / "stat");
    std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
    std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
    if (words.size() > 12 && words[1] == std::to_string(getppid()))
      ticks += std::atof(words[11].c_str()) + std::atof(words[12].c_str());
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

HostWatch::Counters HostWatch::read() const {
  Counters now;
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  now.seconds = std::chrono::duration<double>(since).count();
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::istringstream stat(slurp(root_ / "proc/stat"));
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (stat >> label >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal) {
    now.steal = steal * tick;
    now.busy = (user + nice + system + irq + softirq) * tick;
  }
  timespec own = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  now.own = static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec);
  if (siblings_) now.own += siblings_seconds();
  const std::string throttle = slurp(root_ / "sys/fs/cgroup/cpu.stat");
  const std::string periods = field_of(throttle, "nr_periods", ' ');
  if (!periods.empty()) {
    now.periods = std::atof(periods.c_str());
    now.throttled = std::atof(field_of(throttle, "nr_throttled", ' ').c_str());
  }
  // "some avg10=0.00 avg60=0.00 avg300=0.00 total=123456", microseconds
  const std::string pressure = slurp(root_ / "proc/pressure/cpu");
  if (const size_t total = pressure.find("total="); total != std::string::npos)
    now.waiting = 1e-6 * std::atof(pressure.c_str() + total + 6);
  now.cpus = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  return now;
}

HostWindow HostWatch::result() const {
  const Counters now = read();
  const double wall = std::max(1e-3, now.seconds - start_.seconds);
  const double cpu_seconds = wall * now.cpus;
  HostWindow out;
  if (now.steal >= 0) out.steal = (now.steal - start_.steal) / cpu_seconds;
  if (now.busy >= 0) {
    const double foreign = (now.busy - start_.busy - (now.own - start_.own)) / cpu_seconds;
    out.foreign_cpu = std::max(0.0, foreign);
  }
  if (now.waiting >= 0) out.pressure = (now.waiting - start_.waiting) / wall;
  if (now.periods >= 0) {
    out.throttled = now.periods > start_.periods
                        ? (now.throttled - start_.throttled) / (now.periods - start_.periods)
                        : 0;
  }
  return out;
}

}  // namespace reciperun
