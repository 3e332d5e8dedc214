#include "sdk/train/weight_files.h"

#include <deque>
#include <set>
#include <vector>

namespace assay::train {
namespace {

// The tensors that make a model, and room for their elements in host memory.
struct HostWeights {
  explicit HostWeights(const Segments& segments) {
    for (const SegmentTensor& tensor : segments.all()) {
      if (tensor.role != Role::kValue && tensor.role != Role::kStatistic) continue;
      tensors.push_back(tensor);
      elements.emplace_back(tensor.bytes());
    }
  }
  std::vector<SegmentTensor> tensors;
  std::deque<std::vector<std::byte>> elements;
};

}  // namespace

weights::LoadReport import_weights(ModelInstance& instance, const safetensors::Reader& file,
                                   const weights::ImportOptions& options) {
  require(instance.initialized() || !options.allow_partial, Code::kInvalid,
          "a partial load needs a model with weights: initialize it first");
  HostWeights host(instance.segments());
  std::vector<weights::Target> targets;
  for (size_t i = 0; i < host.tensors.size(); ++i) {
    const Variable& variable = *host.tensors[i].variable;
    targets.push_back({variable.name, variable.dtype, variable.dims, host.elements[i]});
  }
  weights::LoadReport report = weights::import_weights(file, targets, options);
  std::set<std::string> loaded;
  for (const weights::LoadedTensor& tensor : report.loaded()) loaded.insert(tensor.model());
  for (size_t i = 0; i < host.tensors.size(); ++i) {
    if (!loaded.contains(host.tensors[i].variable->name)) continue;
    instance.backend()->write(host.tensors[i].data, host.elements[i].data(),
                              host.elements[i].size());
  }
  instance.restart_averages();
  return report;
}

void export_weights(const ModelInstance& instance, const std::string& path,
                    const weights::NameMap& map) {
  HostWeights host(instance.segments());
  std::vector<weights::Source> sources;
  for (size_t i = 0; i < host.tensors.size(); ++i) {
    const Variable& variable = *host.tensors[i].variable;
    instance.backend()->read(host.elements[i].data(), host.tensors[i].data,
                             host.elements[i].size());
    sources.push_back({variable.name, variable.dtype, variable.dims, host.elements[i]});
  }
  weights::export_weights(path, sources, map);
}

}  // namespace assay::train
