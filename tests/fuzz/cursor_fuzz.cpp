// Any bytes as the position of a loader: it is refused with an Error, or the loader stands there
// and gives the batch of that position.
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Loader loader = make_loader();
  LoaderState state;
  if (!state.ParseFromArray(data, static_cast<int>(size))) return 0;
  try {
    loader.restore(state);
    const Batch* batch = loader.next();
    if (batch != nullptr && (batch->epoch != state.epoch() || batch->index != state.batch()))
      std::abort();
  } catch (const assay::Error&) {
  }
  return 0;
}
