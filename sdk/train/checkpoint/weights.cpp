// Weights by name between a file and a model: everything is matched and checked first, then read,
// reordered and converted tensor by tensor.
#include "sdk/train/checkpoint/weights.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "sdk/base/expect.h"
#include "sdk/base/wildcard.h"
#include "sdk/train/checkpoint/element_cast.h"
#include "sdk/train/checkpoint/weights.pb.h"

namespace assay::weights {
namespace {

// `otherwise` is the layout where no rule says it.
std::string_view layout_by(const NameRule* rule, std::string_view otherwise) {
  return rule == nullptr ? otherwise : std::string_view(rule->layout);
}

// The axis order that turns a layout into ours; empty for none.
std::vector<int> order_from(std::string_view layout, size_t rank) {
  if (layout == "OIHW" && rank == 4) return {0, 2, 3, 1};
  if (layout == "HWIO" && rank == 4) return {3, 0, 1, 2};
  if (layout == "IO" && rank == 2) return {1, 0};
  return {};
}

bool is_torch_layout(std::string_view layout, int rank) {
  return rank == 4 ? layout == "OIHW" : rank != 2 || layout != "IO";
}

std::vector<int> inverse(const std::vector<int>& order) {
  std::vector<int> result(order.size());
  for (size_t axis = 0; axis < order.size(); ++axis) {
    result[static_cast<size_t>(order[axis])] = static_cast<int>(axis);
  }
  return result;
}

std::vector<int64_t> reorder(std::span<const int64_t> dims, const std::vector<int>& order) {
  std::vector<int64_t> result(dims.begin(), dims.end());
  for (size_t axis = 0; axis < order.size(); ++axis) {
    result[axis] = dims[static_cast<size_t>(order[axis])];
  }
  return result;
}

std::string describe(std::string_view type, std::span<const int64_t> dims) {
  std::string text = cat(type, " [");
  for (const int64_t size : dims) text += cat(text.back() == '[' ? "" : ",", size);
  return text + "]";
}

// What is loaded from.
struct Origin {
  std::string name;  // in messages
  std::span<const safetensors::Tensor> tensors;
  std::string_view layout;  // where no rule says it
  std::function<void(const safetensors::Tensor&, std::span<std::byte>)> read;
};

struct Assignment {
  const safetensors::Tensor* tensor;
  const Destination* target;
  std::vector<int> order;
};

bool fits(const Assignment& a) {
  const DType to = a.target->dtype;
  const std::optional<DType> from = a.tensor->dtype;
  const bool castable = from && (*from == to || (is_float(*from) && is_float(to)));
  return castable && std::ranges::equal(reorder(a.tensor->dims, a.order), a.target->dims.span());
}

std::vector<std::string_view> names_of(std::span<const Destination> targets) {
  std::vector<std::string_view> names;
  for (const Destination& target : targets) names.push_back(target.name);
  return names;
}

// What the map keeps goes into the report; returns the rest. A pattern that matches nothing is
// misspelt: what it meant would be overwritten.
std::vector<Destination> wanted(std::span<const Destination> targets, const NameMap& map,
                                LoadReport& report) {
  for (size_t i = 0; i < map.keep.size(); ++i) {
    const std::string& pattern = map.keep[i];
    const auto fits = [&](const Destination& target) {
      return wildcard_match(pattern, target.name);
    };
    if (std::ranges::any_of(targets, fits)) continue;
    const std::string path = cat("keep[", i, "]");
    fail_mismatch(Code::kInvalid, {"name map: " + path, path, cat('"', pattern, '"'),
                                   "a pattern that matches a tensor of the model",
                                   suggested_pattern(pattern, names_of(targets))});
  }
  std::vector<Destination> rest;
  for (const Destination& target : targets) {
    const auto matches = [&](const std::string& p) { return wildcard_match(p, target.name); };
    if (std::ranges::any_of(map.keep, matches)) {
      report.add_kept(target.name);
    } else {
      rest.push_back(target);
    }
  }
  return rest;
}

// Sorts every tensor of the file into the report; returns those to be read.
std::vector<Assignment> assign(const Origin& file, std::span<const Destination> targets,
                               const NameMap& map, LoadReport& report) {
  std::map<std::string_view, const Destination*> by_name;
  for (const Destination& target : targets) by_name.emplace(target.name, &target);
  std::set<std::string> seen;
  std::vector<Assignment> assignments;
  for (const safetensors::Tensor& tensor : file.tensors) {
    const std::optional<MappedName> mapped = name_in_model(map, tensor.name);
    const auto found = mapped ? by_name.find(mapped->name) : by_name.end();
    if (found == by_name.end()) {
      report.add_unused(tensor.name);
      continue;
    }
    require(seen.insert(mapped->name).second, Code::kInvalid, file.name,
            ": the name map sends two tensors to ", mapped->name, ", the second is ", tensor.name);
    Assignment assignment{&tensor, found->second,
                          order_from(layout_by(mapped->rule, file.layout), tensor.dims.size())};
    if (fits(assignment)) {
      assignments.push_back(std::move(assignment));
      continue;
    }
    MismatchedTensor& mismatch = *report.add_mismatched();
    mismatch.set_model(mapped->name);
    mismatch.set_file(tensor.name);
    mismatch.set_expected(describe(to_text(found->second->dtype), found->second->dims.span()));
    mismatch.set_actual(describe(tensor.type, reorder(tensor.dims, assignment.order)));
  }
  for (const Destination& target : targets) {
    if (!seen.contains(target.name)) report.add_missing(target.name);
  }
  return assignments;
}

void require_complete(const LoadReport& report) {
  if (report.mismatched_size() > 0) {
    const MismatchedTensor& first = report.mismatched(0);
    const std::string hint = "\"keep\" them, correct the name map or allow a partial load";
    fail(Code::kInvalid,
         cat(report.path(), ": ", report.mismatched_size(),
             " tensors do not fit the model; the first, ", first.file(), ", is ", first.actual(),
             " where ", first.model(), " needs ", first.expected(), "; ", hint),
         {.argument = first.model(),
          .expected = first.expected(),
          .actual = first.actual(),
          .hint = hint});
  }
  if (report.missing_size() > 0) {
    fail(Code::kInvalid, cat(report.path(), ": ", report.missing_size(),
                             " tensors of the model are missing, the first is ", report.missing(0),
                             "; correct the name map, keep them or allow a partial load"));
  }
}

void load(const Origin& file, const Assignment& a, LoadReport& report) {
  LoadedTensor& entry = *report.add_loaded();
  entry.set_model(a.target->name);
  entry.set_file(a.tensor->name);
  const DType from = *a.tensor->dtype;
  const DType to = a.target->dtype;
  // The common case goes to its place without a copy.
  if (a.order.empty() && from == to) {
    file.read(*a.tensor, a.target->data);
    return;
  }
  std::vector<std::byte> elements(a.tensor->bytes);
  file.read(*a.tensor, elements);
  if (!a.order.empty()) {
    elements = checkpoint::permute(elements, dtype_size(from), a.tensor->dims, a.order);
    entry.set_layout(a.order.size() == 2 ? IO : a.order[0] == 0 ? OIHW : HWIO);
  }
  if (from != to) entry.set_cast(cat(from, " to ", to));
  checkpoint::cast_elements(elements, from, a.target->data, to);
}

LoadReport import_from(const Origin& file, std::span<const Destination> targets,
                       const ImportOptions& options) {
  for (const Destination& target : targets) {
    const auto bytes = static_cast<uint64_t>(target.dims.numel()) * dtype_size(target.dtype);
    require(target.data.size() == bytes, Code::kInvalid, "loading tensor ", target.name,
            ": it takes ", bytes, " bytes, the place for it has ", target.data.size());
  }
  LoadReport report;
  report.set_path(file.name);
  const std::vector<Destination> to_load = wanted(targets, options.map, report);
  const std::vector<Assignment> assignments = assign(file, to_load, options.map, report);
  if (!options.allow_partial) require_complete(report);
  // What is meant to be fine-tuned would start from weights as they were drawn.
  require(to_load.empty() || !assignments.empty(), Code::kInvalid, file.name,
          ": no tensor of the file has the name and shape of one of the model's",
          report.unused_size() > 0 ? cat(", the first is ", report.unused(0)) : "",
          "; correct the name map");
  for (const Assignment& assignment : assignments) load(file, assignment, report);
  return report;
}

}  // namespace

std::string_view layout_of(const safetensors::Reader& file, std::span<const Destination> targets) {
  const auto format = file.metadata().find("format");
  if (format != file.metadata().end()) return format->second == "pt" ? "OIHW" : "SAME";
  int as_torch = 0, as_ours = 0;
  for (const Destination& target : targets) {
    const safetensors::Tensor* tensor = file.find(target.name);
    if (tensor == nullptr || tensor->dims.size() != 4) continue;
    as_torch += fits({tensor, &target, order_from("OIHW", 4)});
    as_ours += fits({tensor, &target, {}});
  }
  require(as_torch != as_ours || as_torch == 0, Code::kInvalid, file.name(),
          ": its convolutions fit as O,I,H,W and as O,H,W,I, and its metadata do not say what its "
          "\"format\" is; give a name map with their layout");
  return as_torch > as_ours ? "OIHW" : "SAME";
}

std::vector<int64_t> dims_in_model(std::span<const int64_t> file_dims, const NameRule* rule,
                                   std::string_view layout) {
  return reorder(file_dims, order_from(layout_by(rule, layout), file_dims.size()));
}

LoadReport import_weights(const safetensors::Reader& file, std::span<const Destination> targets,
                          const ImportOptions& options) {
  const auto read = [&](const safetensors::Tensor& tensor, std::span<std::byte> to) {
    file.read(tensor, to);
  };
  return import_from({file.name(), file.tensors(),
                      options.map.rules.empty() ? layout_of(file, targets) : "SAME", read},
                     targets, options);
}

LoadReport import_weights(const checkpoint::CheckpointReader& file,
                          std::span<const Destination> targets, const ImportOptions& options) {
  std::vector<safetensors::Tensor> tensors;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const checkpoint::TensorInfo& info = file.tensors()[i];
    if (info.role != Role::kValue && info.role != Role::kStatistic) continue;
    const auto dims = info.dims.span();
    tensors.push_back({info.name,
                       std::string(to_text(info.dtype)),
                       info.dtype,
                       {dims.begin(), dims.end()},
                       i,
                       info.bytes});
  }
  const auto read = [&](const safetensors::Tensor& tensor, std::span<std::byte> to) {
    file.read(file.tensors()[tensor.offset], to);
  };
  return import_from({file.name(), tensors, "SAME", read}, targets, options);
}

std::vector<std::string> export_weights(const std::string& path, std::span<const Source> sources,
                                        const NameMap& map,
                                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> left_out;
  std::vector<safetensors::Record> records;
  std::vector<std::byte> reordered;  // of the tensor being written
  bool torch = true;
  for (const Source& source : sources) {
    const std::optional<MappedName> mapped = name_in_file(map, source.name);
    if (!mapped && map.partial) {
      left_out.push_back(source.name);
      continue;
    }
    require(mapped.has_value(), Code::kInvalid, "exporting tensor ", source.name,
            ": no rule of the name map matches it");
    const std::string_view layout = layout_by(mapped->rule, "SAME");
    const auto order = inverse(order_from(layout, source.dims.span().size()));
    torch = torch && is_torch_layout(layout, source.dims.rank());
    const auto data = [&source, &reordered, order]() -> std::span<const std::byte> {
      if (order.empty()) return source.data;
      reordered =
          checkpoint::permute(source.data, dtype_size(source.dtype), source.dims.span(), order);
      return reordered;
    };
    records.push_back({mapped->name, source.dtype, reorder(source.dims.span(), order), data});
  }
  std::map<std::string, std::string> described = metadata;
  described["format"] = torch ? "pt" : "assay";
  safetensors::write(path, records, described);
  return left_out;
}

}  // namespace assay::weights
