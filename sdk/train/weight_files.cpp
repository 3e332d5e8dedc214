// Weights between a model's segments and files, by way of host memory.
#include "sdk/train/weight_files.h"

#include <cstring>
#include <deque>
#include <set>
#include <string_view>
#include <vector>

#include "sdk/train/checkpoint/weights.pb.h"

namespace assay::train {
namespace {

// The tensors that make a model, in host memory.
class HostWeights {
 public:
  explicit HostWeights(const Segments& segments) {
    for (const Role role : {Role::kValue, Role::kStatistic}) {
      HostSegment& copy = copies_.emplace_back(segments.save(role));
      for (const SegmentTensor& tensor : segments.all(role)) {
        tensors_.push_back(
            {*tensor.variable, std::span(copy.bytes).subspan(tensor.offset, tensor.bytes())});
      }
    }
  }

  struct Tensor {
    const Variable& variable;
    std::span<std::byte> elements;
  };
  std::span<const Tensor> tensors() const { return tensors_; }
  void restore(Segments& segments) const {
    for (const HostSegment& copy : copies_) segments.restore(copy);
  }

 private:
  // The spans of `tensors_` point into these; import_weights writes through them.
  std::deque<HostSegment> copies_;
  std::vector<Tensor> tensors_;
};

// Weights of a training that has diverged: networks may hide NaN, as relu does, and answer
// plausibly.
void require_numbers(const std::string& file, const HostWeights::Tensor& tensor) {
  if (tensor.variable.dtype != DType::kF32) return;
  bool any = false;
  for (size_t at = 0; at < tensor.elements.size(); at += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, tensor.elements.data() + at, sizeof bits);
    any |= (bits & 0x7fffffff) > 0x7f800000;
  }
  require(!any, Code::kFormat, file, ": ", tensor.variable.name,
          " holds NaN; take weights from before the training diverged");
}

template <class File>
weights::LoadReport import_from(ModelInstance& instance, const File& file,
                                const weights::ImportOptions& options) {
  require(
      instance.initialized() || !(options.allow_partial || !options.map.keep.empty()),
      Code::kInvalid,
      "a load that leaves weights as they are needs a model that has some: initialize it first");
  const HostWeights host(instance.segments());
  std::vector<weights::Destination> targets;
  for (const auto& [variable, elements] : host.tensors())
    targets.push_back({variable.name, variable.dtype, variable.dims, elements});
  weights::LoadReport report = weights::import_weights(file, targets, options);
  std::set<std::string_view> loaded;
  for (const weights::LoadedTensor& tensor : report.loaded()) loaded.insert(tensor.model());
  for (const HostWeights::Tensor& tensor : host.tensors()) {
    if (loaded.contains(tensor.variable.name)) require_numbers(file.name(), tensor);
  }
  host.restore(instance.segments());
  instance.mark_initialized();
  instance.restart_averages();
  return report;
}

}  // namespace

weights::LoadReport import_weights(ModelInstance& instance, const safetensors::Reader& file,
                                   const weights::ImportOptions& options) {
  return import_from(instance, file, options);
}

weights::LoadReport import_weights(ModelInstance& instance,
                                   const checkpoint::CheckpointReader& file,
                                   const weights::ImportOptions& options) {
  return import_from(instance, file, options);
}

void export_weights(const ModelInstance& instance, const std::string& path,
                    const weights::NameMap& map) {
  const HostWeights host(instance.segments());
  std::vector<weights::Source> sources;
  for (const auto& [variable, elements] : host.tensors())
    sources.push_back({variable.name, variable.dtype, variable.dims, elements});
  weights::export_weights(path, sources, map);
}

}  // namespace assay::train
