// Weights by name: from safetensors and from checkpoints of other models, and to safetensors.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"
#include "sdk/train/checkpoint/checkpoint.h"
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
  NameMap map;  // whose `keep` matches at least one destination each, or kInvalid
  // False: anything missing or of a wrong shape is kInvalid, and nothing is written. True: what
  // fits is loaded, the rest is in the report; kInvalid if nothing does.
  bool allow_partial = false;
};

// How convolutions lie in a file where no rule says it: "OIHW" if its metadata name PyTorch's
// format ("pt"), "SAME" if they name another. torch.save and its like leave them out: then it is
// the layout in which more of them fit `targets`; kInvalid if all fit both ways.
std::string_view layout_of(const safetensors::Reader& file,
                           std::span<const Destination> targets = {});

// The shape a tensor of the file has in the model. `layout` holds where there is no rule (null).
std::vector<int64_t> dims_in_model(std::span<const int64_t> file_dims, const NameRule* rule,
                                   std::string_view layout);

// Fills the destinations from the file, but for those to keep: names mapped, axes reordered,
// floating types converted. All checks come before the first write. Tensors that nothing asked for
// are reported, not refused.
LoadReport import_weights(const safetensors::Reader& file, std::span<const Destination> targets,
                          const ImportOptions& options = {});
// From the weights and statistics of a checkpoint.
LoadReport import_weights(const checkpoint::CheckpointReader& file,
                          std::span<const Destination> targets, const ImportOptions& options);

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
