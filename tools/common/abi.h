// The C interface as the tools use it: handles that free themselves, calls that raise, reports as
// values.
#pragma once

#include <assay/assay_data.h>
#include <google/protobuf/struct.pb.h>

#include <memory>
#include <string>
#include <string_view>

#include "tools/common/error.h"

namespace assay::tools {

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
using Text = Handle<assay_text, assay_text_free>;
using TextQuestion = Handle<assay_text_question, assay_text_question_free>;
using TextSquad = Handle<assay_text_squad, assay_text_squad_free>;
using FoundObjects = Handle<assay_detections, assay_detections_free>;
using Report = Handle<assay_report, assay_report_free>;

inline assay_str text(std::string_view value) { return {value.data(), value.size()}; }
inline std::string string(assay_str value) {
  return value.size == 0 ? std::string() : std::string(value.data, value.size);
}

// "cpu", "cuda:0". Fails (Error kUsage) for others.
assay_device_id device_of(const std::string& name);

// Raises the Error of a failed call and takes over its error object. kUsage for a name that the
// library does not know, kDataMismatch for files that are damaged or not there, kInterrupted after
// an interrupt, Failed if the loss is not finite or a device has too little memory, kCrashed for
// the rest; `caller_fault` where the library says that the arguments are at fault.
[[noreturn]] void raise(assay_status status, assay_error* error, Exit caller_fault);

// Calls an ABI function whose last parameter is the error.
template <class... P, class... A>
void call(Exit caller_fault, assay_status (*function)(P...), A... arguments) {
  assay_error* error = nullptr;
  const assay_status status = function(arguments..., &error);
  if (status != ASSAY_OK) raise(status, error, caller_fault);
}
template <class... P, class... A>
void call(assay_status (*function)(P...), A... arguments) {
  call(Exit::kUsage, function, arguments...);
}

// The handle that a function hands over through its parameter before the error:
//   made<Model>(Exit::kUsage, assay_model_named, context, text("cnn"), text("{}"))
template <class T, class Function, class... A>
T made(Exit caller_fault, Function function, A... arguments) {
  typename T::pointer handle = nullptr;
  call(caller_fault, function, arguments..., &handle);
  return T(handle);
}

// The JSON text of a report.
inline std::string json(const Report& report) { return string(assay_report_text(report.get())); }

// Its content. Missing keys are errors of the program, unless asked for with `has`.
google::protobuf::Struct parse(const Report& report);
google::protobuf::Struct parse(const std::string& json);  // of a report, or a text within one
template <class Function, class... A>
google::protobuf::Struct report_of(Exit caller_fault, Function function, A... arguments) {
  return parse(made<Report>(caller_fault, function, arguments...));
}
bool has(const google::protobuf::Struct& object, const std::string& key);
const google::protobuf::Value& at(const google::protobuf::Struct& object, const std::string& key);
// Strings as they are, numbers without a fraction where they have none, true and false.
std::string text_of(const google::protobuf::Struct& object, const std::string& key);

}  // namespace assay::tools
