// Samples that the host gives one by one, as what a loader reads.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "assay/assay_data.h"
#include "sdk/data/record_source.h"
#include "sdk/data/transform.h"

namespace assay::capi {

// Asks the host for a sample at each read, and gives it as a record.
class HostSource : public data::RecordSource {
 public:
  // From now on the end of this releases the host's data.
  virtual void own() = 0;
};

struct HostSamples {
  std::shared_ptr<HostSource> source;
  data::Transform transform;
};

// kInvalid for texts that make no sense, naming the key.
HostSamples host_samples(const assay_samples& samples, std::string_view sample_json,
                         std::string_view transform_json);

}  // namespace assay::capi
