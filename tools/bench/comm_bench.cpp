// Sums over the ranks of mpirun, beside MPI's own MPI_Allreduce: milliseconds and bus bandwidth by
// size, of the first rank. The bandwidth is that of NCCL's tests, 2 (n - 1) / n bytes a byte
// summed.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/comm/mpi.h"

namespace assay::bench {
namespace {

using Clock = std::chrono::steady_clock;

int of_environment(const char* variable) {
  const char* const value = std::getenv(variable);
  require(value != nullptr, Code::kInvalid, "start it with mpirun -np 2");
  return std::atoi(value);
}

// MPI's own sum, in place.
class TheirSum {
 public:
  explicit TheirSum(std::vector<float>& data) : data_(data) {
    void* const library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD);
    require(library != nullptr, Code::kUnsupported, "libmpi.so.40 is not loaded");
    call_ = reinterpret_cast<Call>(dlsym(library, "MPI_Allreduce"));
    float_ = dlsym(library, "ompi_mpi_float");
    sum_ = dlsym(library, "ompi_mpi_op_sum");
    world_ = dlsym(library, "ompi_mpi_comm_world");
  }
  void operator()() const {
    void* const in_place = reinterpret_cast<void*>(1);  // MPI_IN_PLACE
    call_(in_place, data_.data(), static_cast<int>(data_.size()), float_, sum_, world_);
  }

 private:
  using Call = int (*)(const void*, void*, int, void*, void*, void*);
  std::vector<float>& data_;
  Call call_;
  void *float_, *sum_, *world_;
};

double median_ms(Channel& channel, int repeats, const auto& action) {
  std::vector<double> times;
  for (int i = 0; i < repeats + 3; ++i) {
    channel.gather("");  // all begin together
    const auto start = Clock::now();
    action();
    if (i >= 3)
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<size_t>(repeats / 2)];
}

int run() {
  const int rank = of_environment("OMPI_COMM_WORLD_RANK");
  const int size = of_environment("OMPI_COMM_WORLD_SIZE");
  const auto channel = make_mpi_channel(rank, size, std::chrono::minutes(2));
  if (rank == 0)
    std::printf("%d ranks\n%12s %12s %12s %12s %12s\n", size, "bytes", "ours ms", "GB/s",
                "MPI's ms", "GB/s");
  for (size_t bytes = 4096; bytes <= size_t{64} << 20; bytes *= 4) {
    std::vector<float> data(bytes / sizeof(float), 1);
    const int repeats = bytes < size_t{1} << 20 ? 101 : 21;
    const Launch sum = channel->all_reduce(data.data(), static_cast<int64_t>(data.size()));
    Queue queue;
    const double ours = median_ms(*channel, repeats, [&] { sum(queue); });
    const double theirs = median_ms(*channel, repeats, TheirSum(data));
    const auto rate = [&](double ms) {
      return 2.0 * (size - 1) / size * static_cast<double>(bytes) / ms * 1e-6;
    };
    if (rank == 0)
      std::printf("%12zu %12.3f %12.2f %12.3f %12.2f\n", bytes, ours, rate(ours), theirs,
                  rate(theirs));
  }
  return 0;
}

}  // namespace
}  // namespace assay::bench

int main() {
  try {
    return assay::bench::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "assay-bench-comm: %s\n", error.what());
    return 1;
  }
}
