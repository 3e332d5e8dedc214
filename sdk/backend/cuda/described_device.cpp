// The cards. Written by hand, not read from devices: keys as cuDNN 9.19 serialises them; values are
// those of the compute capability (CUDA C++ Programming Guide, technical specifications: registers,
// shared memory, threads and blocks of a multiprocessor) and of the product (NVIDIA's data sheets:
// multiprocessors, clocks, L2 cache, memory). What DeviceProperties::serialize gives on the card
// itself should take their place.
#include "sdk/backend/cuda/described_device.h"

#include <array>

#include "sdk/base/error.h"

namespace assay::cuda {
namespace {

constexpr std::array kDevices{
    DescribedDevice{
        "NVIDIA H200", 9, 150'000'000'000,
        R"({"deviceVer":900,"driverVer":13000,"cudaDeviceId":0,"maxGridSize":[2147483647,65535,65535],)"
        R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
        R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
        R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
        R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
        R"("supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,)"
        R"("l2CacheSize":62914560,"totalGlobalMem":150000000000,"deviceName":"NVIDIA H200"})"},
    DescribedDevice{
        "NVIDIA A100-SXM4-80GB", 8, 85'000'000'000,
        R"({"deviceVer":800,"driverVer":13000,"cudaDeviceId":0,"maxGridSize":[2147483647,65535,65535],)"
        R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":108,"warpSize":32,)"
        R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,)"
        R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
        R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
        R"("supportCoopLaunch":1,"smClockRateKHz":1410000,"memClockRateKHz":1593000,)"
        R"("l2CacheSize":41943040,"totalGlobalMem":85000000000,"deviceName":"NVIDIA A100-SXM4-80GB"})"},
};

}  // namespace

const DescribedDevice& described_device(std::string_view name) {
  std::string names;
  for (const DescribedDevice& device : kDevices) {
    if (device.name == name) return device;
    names += cat(names.empty() ? "" : ", ", device.name);
  }
  fail(Code::kUnsupported, cat("no description of a ", name, " to plan for; there are: ", names));
}

}  // namespace assay::cuda
