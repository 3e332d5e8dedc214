// Devices, contexts, and the list of running calls that an interruption goes through.
#include "capi/src/context.h"

#include "capi/src/abi.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/backend/cuda/loader.h"
#include "sdk/base/utf8.h"

namespace assay::capi {
namespace {

std::unique_ptr<Backend> make_backend(assay_device_id device,
                                      const assay_context_options& options) {
  if (device.kind == ASSAY_DEVICE_CUDA) {
    return cuda::make_backend(
        {.index = device.index, .deterministic = options.determinism != ASSAY_DETERMINISM_OFF});
  }
  return cpu::make_backend({.threads = options.n_threads});
}

}  // namespace

Context::Context(const assay_context_options& options, const assay_host& host,
                 assay_device_id device)
    : host_(host),
      log_level_(options.log_level == 0 ? int32_t{ASSAY_LOG_WARNING} : options.log_level),
      device_(device),
      deterministic_(options.determinism != ASSAY_DETERMINISM_OFF) {
  count_->limit = options.mem_limit;
  backend_ = std::make_shared<CountedBackend>(
      make_backend(device, options), count_,
      device.kind == ASSAY_DEVICE_CUDA ? Code::kOutOfDeviceMemory : Code::kOutOfHostMemory);
}

std::string to_text(assay_device_id device) {
  return cat("{kind ", device.kind, ", index ", device.index, "}");
}

void Context::require_device(assay_device_id device, std::string_view argument) const {
  if (has_device(device)) return;
  fail_mismatch(Code::kNotFound,
                {argument == "device" ? "device" : cat(argument, "'s device"),
                 std::string(argument), to_text(device), cat("the context's, ", to_text(device_))});
}

void Context::write_log(int32_t level, std::string_view component, std::string_view text) const {
  // Messages may repeat what a file or a caller holds.
  const std::string line = printable(text);
  host_.log(host_.user, level, to_str(component), to_str(line));
}

// Under the lock that an Operation's end takes, so that none of the flags is gone.
void Context::interrupt(const void* subject) const {
  const std::lock_guard lock(running_mutex_);
  for (Operation* operation = running_; operation != nullptr; operation = operation->next_) {
    if (subject != nullptr && subject != operation->subject_) continue;
    operation->flag_.store(true, std::memory_order_relaxed);
    if (operation->wake_ != nullptr) operation->wake_(operation->sleeper_);
  }
}

Operation::Operation(const Context& context, const void* subject, std::atomic<bool>& flag,
                     void (*wake)(void*), void* sleeper)
    : context_(context), subject_(subject), flag_(flag), wake_(wake), sleeper_(sleeper) {
  const std::lock_guard lock(context_.running_mutex_);
  flag_.store(false, std::memory_order_relaxed);
  next_ = context_.running_;
  if (next_ != nullptr) next_->previous_ = this;
  context_.running_ = this;
}

Operation::~Operation() {
  const std::lock_guard lock(context_.running_mutex_);
  (previous_ != nullptr ? previous_->next_ : context_.running_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  flag_.store(false, std::memory_order_relaxed);
}

const DeviceInfo& cpu_device() {
  // Never destroyed: its texts are handed out.
  static const DeviceInfo& info = *new DeviceInfo(cpu::make_backend({})->info());
  return info;
}

namespace {

assay_device_info describe_cpu() {
  const DeviceInfo& cpu = cpu_device();
  return {.id = {ASSAY_DEVICE_CPU, 0},
          .name = to_str(cpu.name),
          .driver = to_str(cpu.driver),
          .mem_total = cpu.memory_total,
          // Asked for anew at every call, of a backend without helper threads.
          .mem_free = cpu::make_backend({.threads = 1})->info().memory_free,
          .n_threads = cpu.threads};
}

assay_device_info describe_cuda(int32_t index) {
  const cuda::Device& device = cuda::devices()[static_cast<size_t>(index)];
  return {.id = {ASSAY_DEVICE_CUDA, index},
          .name = to_str(device.info.name),
          .driver = to_str(device.info.driver),
          .unavailable_reason = to_str(device.unavailable_reason),
          .mem_total = device.info.memory_total,
          .mem_free = device.unavailable_reason.empty() ? cuda::memory_free(index) : 0};
}

// Only what cannot be a device fails here; a GPU that is missing or cannot be used fails when its
// backend is made, with the reason.
assay_device_id chosen_device(const assay_device_id* devices, size_t n_devices) {
  check_array(devices, n_devices, "devices");
  if (n_devices > 1)
    fail_mismatch(Code::kUnsupported,
                  {"n_devices", "n_devices", cat(n_devices), "0 or 1 in this version"});
  if (n_devices == 0) return {ASSAY_DEVICE_CPU, 0};
  const assay_device_id device = devices[0];
  const bool known =
      device.kind == ASSAY_DEVICE_CUDA || (device.kind == ASSAY_DEVICE_CPU && device.index == 0);
  if (!known)
    fail_mismatch(Code::kInvalid, {"devices[0]", "devices", to_text(device),
                                   "a device that assay_device_enum lists"});
  return device;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_device_enum(size_t index, assay_device_info* out, assay_error** err) {
  return guard(err, [&] {
    if (index > 0 && index > cuda::devices().size())
      fail_mismatch(Code::kNotFound,
                    {"index", "index", cat(index),
                     cat("at most ", cuda::devices().size(), ", the last device")});
    write_struct(out, "out",
                 index == 0 ? describe_cpu() : describe_cuda(static_cast<int32_t>(index) - 1));
  });
}

assay_status assay_context_create(const assay_context_options* options, const assay_host* host,
                                  const assay_device_id* devices, size_t n_devices,
                                  assay_context** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto wanted = read_struct(options, "options");
    expect(wanted.n_threads >= 0 && wanted.n_threads <= 4096, {"", "options.n_threads"},
           wanted.n_threads, "0 to 4096");
    expect(wanted.log_level >= 0 && wanted.log_level <= ASSAY_LOG_DEBUG, {"", "options.log_level"},
           wanted.log_level, "0 or an ASSAY_LOG_* constant, 1 to 4");
    expect(wanted.determinism >= 0 && wanted.determinism <= ASSAY_DETERMINISM_OFF,
           {"", "options.determinism"}, wanted.determinism,
           "0 or an ASSAY_DETERMINISM_* constant, 1 or 2");
    expect(wanted.reserved == 0, {"", "options.reserved"}, wanted.reserved, "0");
    const assay_device_id device = chosen_device(devices, n_devices);
    auto context = std::make_shared<const Context>(wanted, read_struct(host, "host"), device);
    if (context->logs(ASSAY_LOG_DEBUG)) {
      const DeviceInfo info = context->backend()->info();
      context->log(ASSAY_LOG_DEBUG, "context", info.name, ", ", info.driver, ", ", info.threads,
                   " threads");
    }
    *out = new assay_context{std::move(context)};
  });
}

assay_status assay_context_interrupt(const assay_context* c) {
  return guard(nullptr, [&] { not_null(c, "c").impl->interrupt(); });
}

assay_status assay_context_mem_stats(const assay_context* c, assay_device_id device,
                                     assay_mem_stats* out, assay_error** err) {
  return guard(err, [&] {
    const Context& context = *not_null(c, "c").impl;
    context.require_device(device);
    const MemoryCount& count = context.memory();
    write_struct(out, "out",
                 assay_mem_stats{.in_use = count.in_use,
                                 .peak = count.peak,
                                 .limit = count.limit,
                                 .blocks = count.blocks});
  });
}

void assay_context_free(assay_context* c) { delete c; }
