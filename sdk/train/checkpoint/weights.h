// Import and export of weights as safetensors, by name.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"
#include "sdk/train/checkpoint/name_map.h"
#include "sdk/train/checkpoint/safetensors.h"

namespace assay::weights {

class LoadReport;  // weights.proto

// A place for a tensor of the model; `data` is borrowed host memory, dense.
struct Destination {
  std::string name;
  DType dtype = DType::kF32;
  Dims dims;
  std::span<std::byte> data;
};

struct ImportOptions {
  NameMap map;
  // False: anything missing or of a wrong shape is kInvalid, and nothing is written. True: what
  // fits is loaded, the rest is in the report.
  bool allow_partial = false;
};

// The shape a tensor of the file has in the model, after the rule's reordering (null: none).
std::vector<int64_t> dims_in_model(std::span<const int64_t> file_dims, const NameRule* rule);

// Fills the destinations from the file: names mapped, axes reordered, floating types converted. All
// checks come before the first write. Tensors that nothing asked for are reported, not refused.
LoadReport import_weights(const safetensors::Reader& file, std::span<const Destination> targets,
                          const ImportOptions& options = {});

// A tensor of the model; `data` is borrowed host memory, dense.
struct Source {
  std::string name;
  DType dtype = DType::kF32;
  Dims dims;
  std::span<const std::byte> data;
};

// The reverse: names and layouts of the file side of the map. kInvalid for a name that no rule
// matches, unless the map is partial: returns the names then left out. The metadata gets "format":
// "pt" where the layouts are PyTorch's, so that its programs take the file, else "assay"
// (convolutions O,H,W,I).
std::vector<std::string> export_weights(const std::string& path, std::span<const Source> sources,
                                        const NameMap& map,
                                        const std::map<std::string, std::string>& metadata = {});

}  // namespace assay::weights
