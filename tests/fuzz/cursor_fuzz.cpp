// Any bytes as the position of a loader: it is refused with an Error, or the loader stands there
// and gives the batch of that position; in the first epochs that which a loader gives that walked
// there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/data/array_transform.h"
#include "sdk/data/loader.h"
#include "sdk/data/loader_state.pb.h"

namespace {

using namespace assay::data;

Loader make_loader() {
  std::vector<std::string> samples;
  for (char sample = 0; sample < 7; ++sample) samples.emplace_back(1, sample);
  LoaderConfig config;
  config.batch_size = 2;
  config.workers = 0;
  return {std::make_shared<MemorySource>(std::move(samples)),
          make_array_transform({{"label", assay::DType::kU8, {}}}), with_defaults(config)};
}

std::string labels_of(const Batch& batch) {
  return {batch.arrays()[0].as<char>(), static_cast<size_t>(batch.valid)};
}

constexpr uint64_t kWalked = 4;  // epochs
std::vector<std::string> walk() {
  Loader loader = make_loader();
  std::vector<std::string> batches;
  while (batches.size() < kWalked * loader.batches_per_epoch())
    batches.push_back(labels_of(*loader.next()));
  return batches;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Loader loader = make_loader();
  static const std::vector<std::string> walked = walk();
  LoaderState state;
  if (!state.ParseFromArray(data, static_cast<int>(size))) return 0;
  try {
    loader.restore(state);
  } catch (const assay::Error&) {
    return 0;
  }
  const Batch* batch = loader.next();
  if (batch == nullptr) return 0;
  if (batch->epoch != state.epoch() || batch->index != state.batch()) std::abort();
  if (state.epoch() < kWalked &&
      labels_of(*batch) != walked[state.epoch() * loader.batches_per_epoch() + state.batch()])
    std::abort();
  return 0;
}
