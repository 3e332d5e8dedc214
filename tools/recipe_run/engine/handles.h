// Ownership and errors of the C interface for C++ callers.
#pragma once

#include <assay/assay.h>
#include <assay/assay_data.h>
#include <google/protobuf/struct.pb.h>

#include <memory>
#include <string>
#include <string_view>

#include "tools/recipe_run/base/error.h"

namespace reciperun {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
using Context = std::unique_ptr<assay_context, Freer<assay_context_free>>;
using Model = std::unique_ptr<assay_model, Freer<assay_model_free>>;
using Trainer = std::unique_ptr<assay_trainer, Freer<assay_trainer_free>>;
using Loader = std::unique_ptr<assay_loader, Freer<assay_loader_free>>;
using Predictor = std::unique_ptr<assay_predictor, Freer<assay_predictor_free>>;
using Slot = std::unique_ptr<assay_slot, Freer<assay_slot_free>>;
using Tensor = std::unique_ptr<assay_tensor, Freer<assay_tensor_release>>;

inline assay_str str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string text(assay_str s) {
  return s.size == 0 ? std::string() : std::string(s.data, s.size);
}

// Raises what an engine call reported; frees `error`. The exit code: kInterrupted for a cancelled
// call, `kind` otherwise.
[[noreturn]] void raise(assay_status status, assay_error* error, Exit kind);

// Calls `function(arguments..., &error)` and raises on failure.
template <class Function, class... Arguments>
void call(Exit kind, Function function, Arguments... arguments) {
  assay_error* error = nullptr;
  const assay_status status = function(arguments..., &error);
  if (status != ASSAY_OK) raise(status, error, kind);
}

// The same for functions whose last output is a new handle.
template <class Handle, class Function, class... Arguments>
Handle make(Exit kind, Function function, Arguments... arguments) {
  typename Handle::pointer out = nullptr;
  call(kind, function, arguments..., &out);
  return Handle(out);
}

// A report as a JSON object.
template <class Function, class... Arguments>
google::protobuf::Struct report(Exit kind, Function function, Arguments... arguments);
google::protobuf::Struct parsed(const assay_report* report);

template <class Function, class... Arguments>
google::protobuf::Struct report(Exit kind, Function function, Arguments... arguments) {
  const auto handle =
      make<std::unique_ptr<assay_report, Freer<assay_report_free>>>(kind, function, arguments...);
  return parsed(handle.get());
}

// A whole number of a report; 0 if absent.
int64_t whole(const google::protobuf::Struct& object, const std::string& key);

}  // namespace reciperun
