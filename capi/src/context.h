// The context behind assay_context: one device, its memory count, the host's log, running calls.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "assay/assay.h"
#include "capi/src/counted_backend.h"
#include "sdk/data/image_reader.h"

namespace assay::capi {

std::string to_text(assay_device_id device);  // "{kind 0, index 0}"

class Context {
 public:
  Context(const assay_context_options& options, const assay_host& host, assay_device_id device);

  const std::shared_ptr<Backend>& backend() const { return backend_; }
  const MemoryCount& memory() const { return *count_; }
  assay_device_id device() const { return device_; }
  bool deterministic() const { return deterministic_; }
  bool has_device(assay_device_id device) const {
    return device.kind == device_.kind && device.index == device_.index;
  }
  // Fails with kNotFound unless `device` is this context's; `argument` is where it came from.
  void require_device(assay_device_id device, std::string_view argument = "device") const;

  bool logs(int32_t level) const { return host_.log != nullptr && level <= log_level_; }
  template <class... Parts>
  void log(int32_t level, std::string_view component, const Parts&... parts) const {
    if (logs(level)) write_log(level, component, cat(parts...));
  }

  // Stops the running calls on the handle that `subject` is the state of, or all of them.
  void interrupt(const void* subject = nullptr) const;

  // The host's decoder of image files; empty when it brought none.
  data::ImageReader image_reader() const;

 private:
  friend class Operation;
  void write_log(int32_t level, std::string_view component, std::string_view text) const;

  assay_host host_;
  int32_t log_level_;
  assay_device_id device_;
  bool deterministic_;
  std::shared_ptr<MemoryCount> count_ = std::make_shared<MemoryCount>();
  std::shared_ptr<Backend> backend_;
  mutable std::mutex running_mutex_;
  mutable class Operation* running_ = nullptr;  // head of a list through the operations themselves
};

// A call that assay_context_interrupt may stop, from its construction to its end. Allocates
// nothing.
class Operation {
 public:
  // Of the handle that `subject` is the state of; null: only the context's interruption stops it.
  explicit Operation(const Context& context, const void* subject = nullptr)
      : Operation(context, subject, own_flag_) {}
  // Raises `flag`, which the engine looks at, instead of a flag of its own.
  Operation(const Context& context, const void* subject, std::atomic<bool>& flag,
            void (*wake)(void*) = nullptr, void* sleeper = nullptr);
  // Also calls wake(subject), under a lock, for work that does not look at a flag.
  Operation(const Context& context, void* subject, void (*wake)(void*))
      : Operation(context, subject, own_flag_, wake, subject) {}
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const std::atomic<bool>* flag() const { return &flag_; }

 private:
  friend class Context;
  const Context& context_;
  const void* subject_;
  std::atomic<bool> own_flag_{false};
  std::atomic<bool>& flag_;
  void (*wake_)(void*);
  void* sleeper_;
  Operation* next_ = nullptr;
  Operation* previous_ = nullptr;
};

// What assay_device_enum and reports say of the machine's processor; the texts live forever.
const DeviceInfo& cpu_device();

}  // namespace assay::capi

struct assay_context {
  std::shared_ptr<const assay::capi::Context> impl;
};
