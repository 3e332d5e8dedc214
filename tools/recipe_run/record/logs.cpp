// Both logs are only appended to; what a crash left torn is cut off when they are opened again.
#include "tools/recipe_run/record/logs.h"

#include <bit>
#include <cstring>

#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"

namespace reciperun {
namespace {

static_assert(std::endian::native == std::endian::little, "steps.bin is written in memory order");

constexpr size_t kHeaderBytes = 16;

std::string header(uint32_t columns) {
  std::string out = "RRSTEP01";
  out.append(reinterpret_cast<const char*>(&columns), 4);
  out.append(4, '\0');
  return out;
}

int64_t bytes_to_keep(const fs::path& path, uint32_t columns, double keep_up_to) {
  int64_t bytes = 0;
  for (const auto& row : read_steps(path, columns)) {
    if (row[0] > keep_up_to) break;
    bytes += static_cast<int64_t>(columns * sizeof(double));
  }
  std::error_code ignored;
  const bool has_header = is_there(path) && fs::file_size(path, ignored) >= kHeaderBytes;
  return has_header ? bytes + static_cast<int64_t>(kHeaderBytes) : 0;
}

}  // namespace

StepLog::StepLog(const fs::path& path, uint32_t columns, double keep_up_to)
    : columns_(columns), file_(path, bytes_to_keep(path, columns, keep_up_to)) {
  if (file_.size() == 0) file_.append(header(columns));
}

void StepLog::append(std::span<const double> row) {
  pending_.append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
  if (pending_.size() > 64 * columns_ * sizeof(double)) flush();
}

void StepLog::flush() {
  file_.append(pending_);
  pending_.clear();
}

void StepLog::sync() {
  flush();
  file_.sync();
}

std::vector<std::vector<double>> read_steps(const fs::path& path, uint32_t columns) {
  if (!is_there(path)) return {};
  const std::string bytes = read_file(path);
  if (bytes.size() < kHeaderBytes) return {};
  if (bytes.compare(0, kHeaderBytes, header(columns)) != 0) {
    throw Error(Exit::kTampered, "'" + path.string() + "' is not a step log of " +
                                     std::to_string(columns) + " columns");
  }
  std::vector<std::vector<double>> rows;
  const size_t row_bytes = columns * sizeof(double);
  for (size_t at = kHeaderBytes; at + row_bytes <= bytes.size(); at += row_bytes) {
    std::vector<double> row(columns);
    std::memcpy(row.data(), bytes.data() + at, row_bytes);
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

int64_t bytes_of_whole_lines(const fs::path& path) {
  if (!is_there(path)) return 0;
  const size_t end = read_file(path).rfind('\n');
  return end == std::string::npos ? 0 : static_cast<int64_t>(end) + 1;
}

}  // namespace

EventLog::EventLog(const fs::path& path) : file_(path, bytes_of_whole_lines(path)) {}

void EventLog::write(record::Event event) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto since_start = std::chrono::steady_clock::now() - start_;
  event.set_time(std::chrono::duration<double>(now).count());
  event.set_since_start(std::chrono::duration<double>(since_start).count());
  file_.append(json_line(event) + "\n");
}

void EventLog::write_durably(record::Event event) {
  write(std::move(event));
  file_.sync();
}

}  // namespace reciperun
