// Data sets through the C interface: the list, conversion, export, reports and checks.
#include "assay/assay_data.h"
#include "capi/src/abi.h"
#include "capi/src/configuration.h"
#include "capi/src/context.h"
#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "datasets/datasets.h"
#include "sdk/base/config_text.h"
#include "sdk/data/manifest.pb.h"
#include "sdk/data/recordio_export.h"

namespace assay::capi {
namespace {

std::string_view type_of(const ConfigField& field) {
  using Type = JsonSchema::Type;
  const Type type = field.holder().type;
  if (type == Type::kText) return "text";
  return type == Type::kBool ? "bool" : "number";
}

DatasetList list_datasets() {
  DatasetList list;
  for (const datasets::DatasetEntry& entry : datasets::dataset_entries()) {
    DatasetRow& row = *list.add_datasets();
    row.set_name(std::string(entry.name));
    row.set_summary(std::string(entry.summary));
    row.set_licence(std::string(entry.licence));
    row.set_default_source(std::string(entry.default_source));
    row.set_samples(std::string(entry.samples));
    if (!entry.make_keys) continue;
    const auto keys = entry.make_keys();
    const ConfigFields fields(config_ref(*keys));
    for (const ConfigField& field : fields.all()) {
      ConversionOption& option = *row.add_options();
      option.set_key(std::string(field.name()));
      option.set_text(std::string(field.text()));
      option.set_type(std::string(type_of(field)));
      option.set_default_(default_text(field));
      option.set_range(field.choices().empty() ? range_text(field)
                                               : enumerate(field.choices(), true));
    }
  }
  return list;
}

// Hands progress to the host and stops when it, or assay_context_interrupt, says so.
data::ProgressFunction progress_function(const Operation& operation, assay_progress progress,
                                         uintptr_t user) {
  return [&operation, progress, user](const data::Progress& state) {
    if (operation.flag()->load(std::memory_order_relaxed)) return false;
    if (progress == nullptr) return true;
    const int32_t answer = progress(user, to_str(state.phase), state.done, state.total);
    if (answer < 0) {
      fail(Code::kCancelled,
           cat("stopped by the host at record ", state.done, " of ", state.total, " (", state.phase,
               ")"),
           {.domain = Domain::kHost, .native_code = answer});
    }
    return true;
  };
}

struct DatasetOptions {
  int32_t shards = 0;
  bool overwrite = false;
  std::shared_ptr<datasets::ConversionKeys> own;  // of the data set, behind those of all
  void fields(ConfigFields& f) {
    f("shards", shards, "files per split; 0: the data set chooses");
    f("overwrite", overwrite, "replace what the folder holds, even another data set");
    if (own) own->fields(f);
  }
};

struct DatasetExportOptions {
  std::string format = "recordio";
  bool overwrite = false;
  void fields(ConfigFields& f) {
    f("format", format, "of the files").one_of({"recordio"});
    f("overwrite", overwrite, "replace files of the same names");
  }
};

datasets::ConvertOptions convert_options(const datasets::DatasetEntry& entry, assay_str source,
                                         assay_str target, assay_str json) {
  DatasetOptions given;
  if (entry.make_keys) given.own = entry.make_keys();
  parse_json(to_text(json, "options_json"), given, "conversion options");
  datasets::ConvertOptions options;
  options.source =
      source.size == 0 ? std::string(entry.default_source) : checked_path(source, "source");
  expect(!options.source.empty(), {"", "source"}, "empty", "the folder or file that ", entry.name,
         " is published as; it has no default");
  options.output = checked_path(target, "target", "a folder");
  options.shards = given.shards;
  options.overwrite = given.overwrite;
  options.keys = std::move(given.own);
  return options;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_dataset_list(assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = new_report(list_datasets());
  });
}

assay_status assay_dataset_convert(const assay_context* c, assay_str name, assay_str source,
                                   assay_str target, assay_str options_json,
                                   assay_progress progress, uintptr_t user, assay_report** out,
                                   assay_error** err) {
  return guard(err, {{"target", target}, {"source", source}}, [&] {
    if (out != nullptr) *out = nullptr;
    const Context& context = *not_null(c, "c").impl;
    const datasets::DatasetEntry& entry = datasets::find_dataset(to_text(name, "name"));
    datasets::ConvertOptions options = convert_options(entry, source, target, options_json);
    const Operation operation(context);
    const int threads = context.backend()->info().threads;  // 0 of a GPU's context
    options.threads = threads > 0 ? threads : cpu_device().threads;
    options.read_image = context.image_reader();
    options.progress = progress_function(operation, progress, user);
    const data::DatasetManifest manifest = entry.convert(options);
    context.log(ASSAY_LOG_INFO, "dataset", entry.name, " is in ", options.output);
    if (out != nullptr) *out = new_report(manifest);
  });
}

assay_status assay_dataset_export(const assay_context* c, assay_str folder, assay_str target,
                                  assay_str options_json, assay_progress progress, uintptr_t user,
                                  assay_error** err) {
  return guard(err, {{"target", target}, {"folder", folder}}, [&] {
    const Operation operation(*not_null(c, "c").impl);
    const auto options =
        parsed<DatasetExportOptions>(to_text(options_json, "options_json"), "export options");
    const std::string from = checked_path(folder, "folder", "a folder");
    data::export_recordio(from, checked_path(target, "target", "a folder"), options.overwrite,
                          progress_function(operation, progress, user));
  });
}

assay_status assay_dataset_report(assay_str folder, assay_report** out, assay_error** err) {
  return guard(err, {{"folder", folder}}, [&] {
    cleared(out);
    *out = new_report(data::read_manifest(checked_path(folder, "folder", "a folder")));
  });
}

assay_status assay_dataset_verify(const assay_context* c, assay_str folder, assay_progress progress,
                                  uintptr_t user, assay_error** err) {
  return guard(err, {{"folder", folder}}, [&] {
    const Operation operation(*not_null(c, "c").impl);
    data::verify_dataset(checked_path(folder, "folder", "a folder"),
                         progress_function(operation, progress, user));
  });
}
