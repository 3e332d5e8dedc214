// Asks NVML ten times a second on a thread of its own; the library is opened when it is needed.
#include "tools/recipe_run/run/gpu_watch.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(100);

// NVML's interface, from its documentation (nvml.h of CUDA 12).
constexpr int kSuccess = 0;
constexpr unsigned kSmClock = 1;
constexpr unsigned long long kPowerCap = 0x4;
// Hardware slow-down, thermal slow-down by software and by hardware, power brake.
constexpr unsigned long long kSlowDown = 0x8 | 0x20 | 0x40 | 0x80;
struct NvmlProcess {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

// The functions of the library that are used here; raises Error with the reason without it.
class Nvml {
 public:
  explicit Nvml(const std::string& library) : handle_(dlopen(library.c_str(), RTLD_NOW)) {
    if (!handle_) throw Error(Exit::kNotRun, "no " + library + " here");
    find("nvmlInit_v2", init_);
    find("nvmlShutdown", shutdown_);
    find("nvmlDeviceGetHandleByIndex_v2", device_);
    find("nvmlDeviceGetClockInfo", clock_);
    find("nvmlDeviceGetCurrentClocksThrottleReasons", reasons_);
    find("nvmlDeviceGetComputeRunningProcesses_v3", processes_);
    if (init_() != kSuccess) throw Error(Exit::kNotRun, "NVML does not start");
  }
  ~Nvml() { shutdown_(); }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  void* device(unsigned index) const {
    void* out = nullptr;
    if (device_(index, &out) != kSuccess)
      throw Error(Exit::kNotRun, "NVML knows no GPU " + std::to_string(index));
    return out;
  }
  // Negative = not told.
  double clock(void* device) const {
    unsigned megahertz = 0;
    return clock_(device, kSmClock, &megahertz) == kSuccess ? megahertz : -1;
  }
  unsigned long long reasons(void* device) const {
    unsigned long long mask = 0;
    return reasons_(device, &mask) == kSuccess ? mask : 0;
  }
  // Absent = not told.
  std::optional<std::vector<int>> processes(void* device) const {
    NvmlProcess list[64] = {};
    unsigned count = 64;
    if (processes_(device, &count, list) != kSuccess) return std::nullopt;
    std::vector<int> pids;
    for (unsigned i = 0; i < std::min(count, 64u); ++i)
      pids.push_back(static_cast<int>(list[i].pid));
    return pids;
  }

 private:
  template <class Function>
  void find(const char* name, Function& out) {
    out = reinterpret_cast<Function>(dlsym(handle_.get(), name));
    if (out == nullptr) throw Error(Exit::kNotRun, std::string("NVML has no ") + name);
  }

  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  std::unique_ptr<void, Close> handle_;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*device_)(unsigned, void**) = nullptr;
  int (*clock_)(void*, unsigned, unsigned*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
  int (*processes_)(void*, unsigned*, NvmlProcess*) = nullptr;
};

// 0 where there is none, or the process is gone.
int parent_process(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');  // a program's name may contain anything
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(stat.substr(name_end + 1));
  char state = 0;
  int parent = 0;
  rest >> state >> parent;
  return parent;
}

bool runs_this_program(int pid) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto other = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return !error && own == other;
}

// The first name space of process numbers has a fixed number of its own.
bool in_own_pid_namespace() {
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return !error && space.string() != "pid:[4026531836]";
}

// The driver's number of a device that CUDA counts as `index`.
unsigned driver_index(unsigned index) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return index;
  const std::vector<std::string> list = split(visible, ',');
  if (index >= list.size() || list[index].empty() ||
      list[index].find_first_not_of("0123456789") != std::string::npos)
    return index;
  return static_cast<unsigned>(std::strtoul(list[index].c_str(), nullptr, 10));
}

double share(size_t part, size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::optional<bool> foreign_process(const std::vector<int>& listed, bool in_container, int self,
                                    const std::function<int(int)>& parent_of,
                                    const std::function<bool(int)>& is_this_program) {
  int root = self;
  for (int up = parent_of(root); up > 1 && is_this_program(up); up = parent_of(root)) root = up;
  const auto is_own = [&](int pid) {
    while (pid > 1 && pid != root) pid = parent_of(pid);
    return pid == root;
  };
  const auto own = std::count_if(listed.begin(), listed.end(), is_own);
  if (own == 0 && in_container && !listed.empty()) return std::nullopt;
  return own != std::ssize(listed);
}

class GpuWatch::Sampler {
 public:
  Sampler(unsigned index, const std::string& library)
      : nvml_(library), device_(nvml_.device(driver_index(index))) {
    sample();  // however short the window, there is one
    thread_ = std::thread([this] { loop(); });
  }
  ~Sampler() { stop(); }

  GpuWindow result() {
    stop();
    sample();
    std::sort(clocks_.begin(), clocks_.end());
    const size_t n = clocks_.size();
    const double low = n == 0 ? 0 : clocks_[n / 20], high = n == 0 ? 0 : clocks_[n - 1 - n / 20];
    GpuWindow window;
    if (high > 0) window.clock_drop = 1 - low / high;
    window.power_capped = share(capped_, samples_);
    window.slowed = share(slowed_, samples_);
    if (listed_ > 0) window.foreign = share(foreign_, listed_);
    return window;
  }

 private:
  void sample() {
    const double clock = nvml_.clock(device_);
    if (clock > 0) clocks_.push_back(clock);
    const unsigned long long reasons = nvml_.reasons(device_);
    capped_ += (reasons & kPowerCap) != 0;
    slowed_ += (reasons & kSlowDown) != 0;
    ++samples_;
    const auto listed = nvml_.processes(device_);
    if (!listed) return;
    const auto foreign = foreign_process(*listed, in_own_pid_namespace(), getpid(), parent_process,
                                         runs_this_program);
    if (!foreign) return;
    foreign_ += *foreign;
    ++listed_;
  }

  void loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!wake_.wait_for(lock, kPeriod, [this] { return stopped_; })) sample();
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      stopped_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Nvml nvml_;
  void* device_;
  std::vector<double> clocks_;
  size_t samples_ = 0, capped_ = 0, slowed_ = 0, foreign_ = 0;
  size_t listed_ = 0;  // samples that told which processes compute
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::thread thread_;
};

GpuWatch::GpuWatch(const std::string& device, const std::string& library) {
  const std::string kind = "cuda:";
  if (!device.starts_with(kind)) {
    unwatched_ = "not a GPU";
    return;
  }
  try {
    const auto index =
        static_cast<unsigned>(std::strtoul(device.c_str() + kind.size(), nullptr, 10));
    sampler_ = std::make_unique<Sampler>(index, library);
  } catch (const Error& error) {
    unwatched_ = error.what();
  }
}

GpuWatch::~GpuWatch() = default;

GpuWindow GpuWatch::result() {
  GpuWindow window = sampler_ ? sampler_->result() : GpuWindow{};
  window.unwatched = unwatched_;
  return window;
}

}  // namespace reciperun
