// Loaders through the C interface. A batch is handed out as views of the loader's own memory, which
// it fills again: the views are made with the loader and found by their address.
#include "sdk/data/loader.h"
#include "sdk/data/loader_state.pb.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "assay/assay_data.h"
#include "capi/src/abi.h"
#include "capi/src/context.h"
#include "capi/src/host_samples.h"
#include "capi/src/report_parts.h"
#include "capi/src/tensor.h"
#include "datasets/datasets.h"
#include "sdk/base/expect.h"
#include "sdk/data/manifest.pb.h"

namespace assay::capi {
namespace {

using Clock = std::chrono::steady_clock;

// Shared by a loader's handle and the tensors of its batches.
struct LoaderCore {
  LoaderCore(std::shared_ptr<const Context> in_context,
             std::shared_ptr<const data::RecordSource> source, data::Transform transform,
             const data::LoaderConfig& config)
      : context(std::move(in_context)), loader(std::move(source), std::move(transform), config) {}

  std::shared_ptr<const Context> context;
  std::string dataset, split;  // empty of samples that the host gives
  data::Loader loader;
  mutable Access access;
  std::atomic<bool> interrupted{false};
  int64_t delivered = 0;  // samples
  Clock::time_point first_request;
};

// A worker cannot wait for itself: what a host's sample drops the last of is ended by a thread of
// its own. If there is none to be had, it is kept: the host must not end for that.
void end_core(LoaderCore* core) {
  if (!core->loader.on_worker()) {
    delete core;
    return;
  }
  try {
    std::thread([core] { delete core; }).detach();
  } catch (const std::exception&) {
  }
}

// For calls that wait for the workers.
void refuse_worker(const LoaderCore& core) {
  require(!core.loader.on_worker(), Code::kBusy,
          "the loader is in use: the call comes from one of its samples, and would wait for it");
}

void interrupt_loader(void* argument) {
  auto& core = *static_cast<LoaderCore*>(argument);
  core.interrupted = true;
  core.loader.cancel();
}

data::LoaderConfig parse_loader_config(std::string_view json) {
  data::LoaderConfig config;
  parse_json(json, config, "loader configuration");
  return config;
}

std::shared_ptr<LoaderCore> make_core(const std::shared_ptr<const Context>& context,
                                      std::shared_ptr<const data::RecordSource> records,
                                      data::Transform transform, const data::LoaderConfig& config) {
  if (!config.record.empty())
    records = std::make_shared<data::RecordSelection>(std::move(records), config.record);
  auto core =
      std::make_unique<LoaderCore>(context, std::move(records), std::move(transform), config);
  return {core.release(), end_core};
}

std::shared_ptr<LoaderCore> open_loader(const std::shared_ptr<const Context>& context,
                                        const std::string& folder, const std::string& split,
                                        std::string_view config_json,
                                        std::string_view transform_json) {
  const data::LoaderConfig config = parse_loader_config(config_json);
  const data::DatasetManifest manifest = data::read_manifest(folder);
  auto core = make_core(
      context, data::open_split(folder, manifest, split),
      datasets::find_dataset(manifest.dataset()).make_transform(manifest, transform_json), config);
  core->dataset = manifest.dataset();
  core->split = split;
  return core;
}

void log_loader(const LoaderCore& core) {
  const data::Loader& loader = core.loader;
  core.context->log(
      ASSAY_LOG_INFO, "loader",
      core.dataset.empty() ? "samples of the host" : cat(core.dataset, " ", core.split), ": ",
      loader.samples(), " samples, ", loader.batches_per_epoch(), " batches of ",
      loader.batch_size());
}

LoaderReport describe(const LoaderCore& core) {
  LoaderReport report;
  const data::LoaderState state = core.loader.state();
  if (!core.dataset.empty()) {
    report.set_dataset(core.dataset);
    report.set_split(core.split);
  }
  report.set_config(to_json(core.loader.config()));
  report.set_samples(static_cast<double>(core.loader.samples()));
  report.set_batch_size(static_cast<double>(core.loader.batch_size()));
  report.set_batches_per_epoch(static_cast<double>(core.loader.batches_per_epoch()));
  report.set_epoch(static_cast<double>(state.epoch()));
  report.set_batch(static_cast<double>(state.batch()));
  for (const data::ArraySpec& array : core.loader.arrays()) {
    InputRow& row = *report.add_arrays();
    row.set_name(array.name);
    row.set_dtype(std::string(assay::to_text(array.dtype)));
    set_shape(*row.mutable_sample_shape(), array.dims.span());
    row.set_label(array.pad < 0);
  }
  report.set_samples_delivered(static_cast<double>(core.delivered));
  report.set_wait_seconds(core.loader.wait_seconds());
  if (core.first_request != Clock::time_point()) {
    report.set_seconds(std::chrono::duration<double>(Clock::now() - core.first_request).count());
    report.set_samples_per_second(report.samples_delivered() / report.seconds());
  }
  return report;
}

}  // namespace
}  // namespace assay::capi

struct assay_loader {
  std::shared_ptr<assay::capi::LoaderCore> core;
  // One per array of every batch the loader fills in turn. They keep `core` alive, so they stand
  // outside of it.
  std::vector<assay::capi::TensorOwner> views;
};

namespace assay::capi {
namespace {

// With the view of every array that it will give: once a batch is passed, nothing may fail.
std::unique_ptr<assay_loader> make_loader(const std::shared_ptr<LoaderCore>& core) {
  auto loader = std::make_unique<assay_loader>();
  loader->core = core;
  for (const data::Batch* batch : core->loader.buffers()) {
    for (const data::BatchArray& array : batch->arrays()) {
      auto view = std::make_unique<assay_tensor>(array.dtype, array.dims, array.data,
                                                 ASSAY_TENSOR_READ_ONLY, core->access, core);
      loader->views.emplace_back(view.get());
      static_cast<void>(view.release());
    }
  }
  log_loader(*core);
  return loader;
}

const assay_tensor* view_of(const assay_loader& loader, const data::BatchArray& array) {
  const auto has_its_data = [&](const TensorOwner& view) { return view->data == array.data; };
  return std::ranges::find_if(loader.views, has_its_data)->get();
}

const data::Batch& next_batch(LoaderCore& core) {
  // After an interruption the loader waits to be told to go on.
  if (core.interrupted.exchange(false)) core.loader.restore(core.loader.state());
  if (core.first_request == Clock::time_point()) core.first_request = Clock::now();
  const Operation operation(*core.context, &core, interrupt_loader);
  const data::Batch* batch = core.loader.next();
  require(batch != nullptr, Code::kEndOfData, "the loader has given its last batch");
  core.delivered += batch->valid;
  return *batch;
}

data::LoaderState parse_cursor(const void* src, size_t size) {
  check_array(src, size, "src");
  data::LoaderState state;
  const bool parsed =
      size > 0 && size < (size_t{1} << 20) && state.ParseFromArray(src, static_cast<int>(size));
  if (!parsed)
    fail_mismatch(Code::kFormat, {"src", "src", cat(size, " bytes that are no position"),
                                  "what assay_loader_cursor gave"});
  return state;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_loader_create(const assay_context* c, assay_str folder, assay_str split,
                                 assay_str config_json, assay_str transform_json,
                                 assay_loader** out, assay_error** err) {
  return guard(err, {{"folder", folder}}, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    const auto core = open_loader(
        context, checked_path(folder, "folder", "a folder"), std::string(to_text(split, "split")),
        to_text(config_json, "config_json"), to_text(transform_json, "transform_json"));
    *out = make_loader(core).release();
  });
}

assay_status assay_loader_from_samples(const assay_context* c, const assay_samples* samples,
                                       assay_str sample_json, assay_str config_json,
                                       assay_str transform_json, assay_loader** out,
                                       assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    HostSamples given = host_samples(read_struct(&not_null(samples, "samples"), "samples"),
                                     to_text(sample_json, "sample_json"),
                                     to_text(transform_json, "transform_json"));
    const auto core = make_core(context, given.source, std::move(given.transform),
                                parse_loader_config(to_text(config_json, "config_json")));
    *out = make_loader(core).release();
    given.source->own();
  });
}

assay_status assay_loader_next(assay_loader* l, const assay_tensor** batch, size_t n,
                               assay_batch_info* info, assay_error** err) {
  return guard(err, [&] {
    LoaderCore& core = *not_null(l, "l").core;
    check_output(info, "info");
    check_array(batch, n, "batch");
    expect(n <= core.loader.arrays().size(), {"", "n"}, n, "at most ", core.loader.arrays().size(),
           ", the arrays of a batch");
    refuse_worker(core);
    const ExclusiveUse use(core.access, "loader or a tensor of its batch");
    const double waited = core.loader.wait_seconds();
    const data::Batch& given = next_batch(core);
    for (size_t i = 0; i < n; ++i) batch[i] = view_of(*l, given.arrays()[i]);
    if (info == nullptr) return;
    write_struct(info, "info",
                 assay_batch_info{.epoch = static_cast<int64_t>(given.epoch),
                                  .batch = static_cast<int64_t>(given.index),
                                  .rows = given.rows(),
                                  .valid = given.valid,
                                  .wait_seconds = core.loader.wait_seconds() - waited});
  });
}

assay_status assay_loader_interrupt(const assay_loader* l) {
  return guard(nullptr, [&] {
    LoaderCore& core = *not_null(l, "l").core;
    core.context->interrupt(&core);
  });
}

assay_status assay_loader_cursor(const assay_loader* l, void* dst, size_t capacity, size_t* size,
                                 assay_error** err) {
  return guard(err, [&] {
    const LoaderCore& core = *not_null(l, "l").core;
    size_t& needed = not_null(size, "size");
    const SharedUse use(core.access, "loader");
    const std::string bytes = core.loader.state().SerializeAsString();
    needed = bytes.size();
    if (dst == nullptr) return;
    expect(capacity >= bytes.size(), {"", "capacity"}, capacity, "room for the ", bytes.size(),
           " bytes of the position");
    std::memcpy(dst, bytes.data(), bytes.size());
  });
}

assay_status assay_loader_restore(assay_loader* l, const void* src, size_t size,
                                  assay_error** err) {
  return guard(err, [&] {
    LoaderCore& core = *not_null(l, "l").core;
    refuse_worker(core);
    const ExclusiveUse use(core.access, "loader or a tensor of its batch");
    core.loader.restore(parse_cursor(src, size));
  });
}

assay_status assay_loader_seek(assay_loader* l, int64_t epoch, assay_error** err) {
  return guard(err, [&] {
    LoaderCore& core = *not_null(l, "l").core;
    expect(epoch >= 0, {"", "epoch"}, epoch, "0 or more");
    refuse_worker(core);
    const ExclusiveUse use(core.access, "loader or a tensor of its batch");
    core.loader.rewind(static_cast<uint64_t>(epoch));
  });
}

assay_status assay_loader_report(const assay_loader* l, assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const LoaderCore& core = *not_null(l, "l").core;
    const SharedUse use(core.access, "loader");
    *out = new_report(describe(core));
  });
}

void assay_loader_free(assay_loader* l) { delete l; }
