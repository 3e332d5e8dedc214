// Owners of the C ABI's handles, and the way its errors become ours.
#pragma once

#include <assay/assay_data.h>
#include <google/protobuf/struct.pb.h>

#include <memory>
#include <string>
#include <string_view>

#include "tools/recipe_run/base/error.h"

namespace reciperun::engine {

template <class T, void (*kFree)(T*)>
struct Free {
  void operator()(T* handle) const { kFree(handle); }
};
template <class T, void (*kFree)(T*)>
using Handle = std::unique_ptr<T, Free<T, kFree>>;

using Context = Handle<assay_context, assay_context_free>;
using Model = Handle<assay_model, assay_model_free>;
using Trainer = Handle<assay_trainer, assay_trainer_free>;
using Predictor = Handle<assay_predictor, assay_predictor_free>;
using Slot = Handle<assay_slot, assay_slot_free>;
using Loader = Handle<assay_loader, assay_loader_free>;
using Tensor = Handle<assay_tensor, assay_tensor_release>;
using Report = Handle<assay_report, assay_report_free>;

inline assay_str text(std::string_view s) { return {s.data(), s.size()}; }
inline std::string string(assay_str s) {
  return s.size == 0 ? std::string() : std::string(s.data, s.size);
}

// Calls an ABI function whose last parameter is the error, and raises Error if it fails: with
// `caller_fault` when the library says that the arguments are at fault, kDataMismatch for damaged
// or missing files, kInterrupted after an interrupt, kCrashed otherwise; Failed if the loss is not
// finite.
[[noreturn]] void raise(assay_status status, assay_error* error, Exit caller_fault);
template <class Function, class... Arguments>
void call(Exit caller_fault, Function function, Arguments... arguments) {
  assay_error* error = nullptr;
  const assay_status status = function(arguments..., &error);
  if (status != ASSAY_OK) raise(status, error, caller_fault);
}

// The JSON object of a report.
google::protobuf::Struct parse_report(const assay_report* report);

}  // namespace reciperun::engine
