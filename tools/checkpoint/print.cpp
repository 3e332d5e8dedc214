// The library's reports on checkpoints, laid out as tables.
#include "tools/checkpoint/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

#include "tools/common/abi.h"

namespace assay::tools {
namespace {

using google::protobuf::Struct;

const auto& rows(const Struct& object, const std::string& key) {
  return at(object, key).list_value().values();
}

std::string list_text(const Struct& object, const std::string& key, std::string_view between) {
  std::string text;
  for (const auto& value : rows(object, key)) {
    if (!text.empty()) text += between;
    text += value.string_value();
  }
  return text;
}

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string time_text(const std::string& unix_seconds) {
  const std::time_t time = std::stoll(unix_seconds);
  std::tm utc{};
  char text[32];
  if (gmtime_r(&time, &utc) == nullptr) return unix_seconds;
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc)};
}

// Columns as wide as their longest cell.
std::string table(const std::vector<std::vector<std::string>>& cells) {
  std::vector<size_t> widths(cells.front().size());
  for (const auto& row : cells) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string field(std::string_view name, const std::string& value) {
  return value.empty() ? "" : fmt::format("{:<12} {}\n", name, value);
}

// Nothing where the report does not say it.
std::string optional_text(const Struct& report, const std::string& key) {
  return has(report, key) ? text_of(report, key) : "";
}

// Nothing for a file that does not say what it is of.
std::string named(const Struct& report, const std::string& name, const std::string& config) {
  const std::string text = optional_text(report, name);
  return text.empty() ? "" : text + " " + text_of(report, config);
}

// Only files with trainer state say how far it came.
std::string progress_text(const Struct& report) {
  if (!has(report, "step")) return "";
  return fmt::format("step {}, {} samples, seed {}", text_of(report, "step"),
                     text_of(report, "samples"), text_of(report, "seed"));
}

std::string tensor_table(const Struct& report) {
  std::vector<std::vector<std::string>> cells{{"tensor", "type", "bytes", "role", "crc32c"}};
  for (const auto& value : rows(report, "tensors")) {
    const Struct& tensor = value.struct_value();
    cells.push_back({text_of(tensor, "name"),
                     text_of(tensor, "dtype") + "[" + list_text(tensor, "dims", ",") + "]",
                     text_of(tensor, "bytes"), optional_text(tensor, "role"),
                     optional_text(tensor, "crc32c")});
  }
  if (text_of(report, "format") != "checkpoint") {
    for (auto& row : cells) row.resize(3);  // others have neither roles nor sums
  }
  return table(cells);
}

// What a line shows of a text of any length, such as a vocabulary.
std::string beginning_of(const std::string& value) {
  constexpr size_t kMost = 100;
  size_t end = std::min(value.find('\n'), kMost);
  if (end >= value.size()) return value;
  while (end > 0 && (value[end] & 0xC0) == 0x80) --end;  // no part of a character
  return fmt::format("{} ... ({} bytes)", value.substr(0, end), value.size());
}

std::string format_text(const Struct& report) {
  std::string format = text_of(report, "format");
  if (format != "checkpoint") return format;
  return fmt::format("checkpoint {}, written by assay {}, {}", text_of(report, "format_version"),
                     text_of(report, "library_version"),
                     time_text(text_of(report, "created_unix_s")));
}

}  // namespace

std::string inspection_text(const Struct& report) {
  std::string text = field("file", text_of(report, "path"));
  text += field("size", bytes_text(std::stod(text_of(report, "file_bytes"))));
  text += field("format", format_text(report));
  text += field("parts", list_text(report, "parts", ", "));
  text += field("model", named(report, "model_name", "model_config"));
  text += field("optimizer", named(report, "optimizer_name", "optimizer_config"));
  text += field("schedule", optional_text(report, "schedule_config"));
  text += field("precision", optional_text(report, "precision"));
  text += field("progress", progress_text(report));
  text += field("weights", optional_text(report, "weight_elements"));
  if (has(report, "data_cursor_bytes"))
    text += field("data cursor", text_of(report, "data_cursor_bytes") + " bytes");
  for (const auto& value : rows(report, "metadata")) {
    text += field("metadata", text_of(value.struct_value(), "key") + " = " +
                                  beginning_of(text_of(value.struct_value(), "value")));
  }
  return text + "\n" + tensor_table(report);
}

std::string verification_text(const Struct& report) {
  if (at(report, "ok").bool_value()) {
    return fmt::format("{}: ok, {} tensors, {}\n", text_of(report, "path"),
                       text_of(report, "tensors"),
                       bytes_text(std::stod(text_of(report, "file_bytes"))));
  }
  std::string text = text_of(report, "path") + ": DAMAGED\n";
  for (const auto& fault : rows(report, "faults")) text += "  " + fault.string_value() + "\n";
  return text;
}

std::string comparison_text(const Struct& report) {
  if (at(report, "identical").bool_value()) {
    return fmt::format("identical: {} tensors and all state\n", text_of(report, "equal_tensors"));
  }
  std::string text = fmt::format("a  {}\nb  {}\n{} tensors are equal\n", text_of(report, "a"),
                                 text_of(report, "b"), text_of(report, "equal_tensors"));
  std::vector<std::vector<std::string>> cells{
      {"tensor", "role", "difference", "elements", "largest", "a", "b"}};
  for (const auto& value : rows(report, "tensors")) {
    const Struct& tensor = value.struct_value();
    cells.push_back({text_of(tensor, "name"), text_of(tensor, "role"), text_of(tensor, "kind"),
                     optional_text(tensor, "different_elements"),
                     optional_text(tensor, "max_abs_difference"), optional_text(tensor, "a"),
                     optional_text(tensor, "b")});
  }
  if (cells.size() > 1) text += "\n" + table(cells);
  cells = {{"state", "a", "b"}};
  for (const auto& value : rows(report, "state")) {
    const Struct& difference = value.struct_value();
    cells.push_back(
        {text_of(difference, "field"), text_of(difference, "a"), text_of(difference, "b")});
  }
  if (cells.size() > 1) text += "\n" + table(cells);
  return text;
}

std::string conversion_text(const Struct& report) {
  std::string text = fmt::format("{}: {} tensors from {}\n", text_of(report, "to"),
                                 text_of(report, "tensors"), text_of(report, "from"));
  for (const auto& name : rows(report, "skipped"))
    text += "  skipped " + name.string_value() + "\n";
  return text;
}

std::string export_text(const Struct& report) {
  return fmt::format("{}: ONNX opset {}, {} nodes, {}\n", text_of(report, "path"),
                     text_of(report, "opset"), text_of(report, "nodes"),
                     bytes_text(at(report, "file_bytes").number_value()));
}

}  // namespace assay::tools
