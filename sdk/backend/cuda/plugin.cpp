// The entry of libassay_cuda.so.
#include "sdk/backend/cuda/plugin.h"

#include "sdk/backend/cuda/backend.h"
#include "sdk/backend/cuda/plan_only.h"

extern "C" __attribute__((visibility("default"))) const assay::cuda::PluginTable*
assay_cuda_plugin() {
  static const std::string& fingerprint = *new std::string(assay::cuda::fingerprint());
  static const assay::cuda::PluginTable kTable{
      fingerprint.c_str(), assay::cuda::find_devices, assay::cuda::make_device_backend,
      assay::cuda::memory_free, assay::cuda::make_plan_only_backend};
  return &kTable;
}
