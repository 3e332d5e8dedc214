// What the small programs share: calls of the C interface that raise, reports as values, exit
// codes.
#pragma once

#include <assay/assay_data.h>
#include <google/protobuf/struct.pb.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace assay::tools {

// Exit codes. Frozen: scripts depend on them.
enum Exit : int {
  kDone = 0,
  kDifferent = 1,  // the question has the answer "no": damaged, different
  kUsage = 2,      // the command line, or a value in it
  kFiles = 3,      // a file is missing, unreadable, unwritable or no such file as was asked for
  kFailed = 4,     // anything else
  kInterrupted = 130,
};

// A failed call of the library; what() is its message.
class Failure : public std::runtime_error {
 public:
  Failure(assay_status status, const std::string& message, std::string argument = "")
      : std::runtime_error(message), status_(status), argument_(std::move(argument)) {}
  assay_status status() const { return status_; }
  Exit exit_code() const;

 private:
  assay_status status_;
  std::string argument_;  // of the library's function
};

// Raises Failure, taking over the error object, unless `status` is ASSAY_OK.
void check(assay_status status, assay_error* error);

// f(arguments..., &error), raising Failure.
template <class... P, class... A>
void call(assay_status (*f)(P...), A... arguments) {
  assay_error* error = nullptr;
  const assay_status status = f(arguments..., &error);
  check(status, error);
}

inline assay_str text(std::string_view value) { return {value.data(), value.size()}; }
inline std::string string(assay_str value) { return std::string(value.data, value.size); }

struct Free {
  void operator()(assay_context* handle) const { assay_context_free(handle); }
  void operator()(assay_report* handle) const { assay_report_free(handle); }
};
using Context = std::unique_ptr<assay_context, Free>;
using Report = std::unique_ptr<assay_report, Free>;

// The JSON text of a report.
inline std::string json(const Report& report) { return string(assay_report_text(report.get())); }

// Its content. Missing keys are errors of the program, unless asked for with `has`.
google::protobuf::Struct parse(const Report& report);
bool has(const google::protobuf::Struct& object, const std::string& key);
const google::protobuf::Value& at(const google::protobuf::Struct& object, const std::string& key);
// Strings as they are, numbers without a fraction where they have none, true and false.
std::string text_of(const google::protobuf::Struct& object, const std::string& key);

}  // namespace assay::tools
