#include "sdk/base/config_text.h"

#include <cmath>

#include "sdk/base/error.h"

namespace assay {
namespace {

// 1048576 is 2^20.
std::string end_text(double value) {
  int exponent = 0;
  const bool is_power = value > 65536 && std::frexp(value, &exponent) == 0.5;
  return is_power ? cat("2^", exponent - 1) : cat(value);
}

}  // namespace

std::string default_text(const ConfigField& field) {
  std::string items;
  for (size_t i = 0; i < field.count(); ++i) {
    items += i == 0 ? "" : ", ";
    items += std::visit(
        [](const auto& value) -> std::string {
          using Value = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, ConfigRef>)
            return config_to_json(value);
          else if constexpr (std::is_same_v<Value, std::string*>)
            return cat('"', *value, '"');
          else
            return cat(*value);
        },
        field.at(i));
  }
  if (field.holder().is_list) return cat("[", items, "]");
  return field.count() == 0 ? "none" : items;
}

std::string range_text(const ConfigField& field) {
  if (!field.range()) return "";
  const Interval& range = *field.range();
  return cat(range.with_low ? '[' : '(', end_text(range.low), ", ", end_text(range.high),
             range.with_high ? ']' : ')');
}

}  // namespace assay
