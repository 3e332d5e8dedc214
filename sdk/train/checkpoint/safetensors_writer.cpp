// Writing safetensors: the header from names and shapes alone, then tensor by tensor.
#include <algorithm>
#include <set>
#include <string>

#include "sdk/base/error.h"
#include "sdk/base/json_writer.h"
#include "sdk/base/utf8.h"
#include "sdk/train/checkpoint/safetensors.h"
#include "sdk/train/checkpoint/tensor_layout.h"

namespace assay::safetensors {
namespace {

std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kF64:
      return "F64";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    case DType::kU8:
      return "U8";
  }
  return "";
}

// Text as a JSON string, quotes included.
std::string quoted(const std::string& text) {
  JsonWriter json;
  json.text(text);
  return json.take();
}

uint64_t checked_bytes(const Record& record) {
  require(checkpoint::is_tensor_name(record.name) && record.name != "__metadata__", Code::kInvalid,
          "exporting tensor ", record.name,
          ": its name is not 1 to 1024 bytes of UTF-8 without control characters");
  const auto bytes = checkpoint::tensor_bytes(record.dims, record.dtype);
  require(bytes.has_value(), Code::kInvalid, "exporting tensor ", record.name,
          ": its shape is impossible");
  return *bytes;
}

// Places count from the end of the header, in the order of `records`.
std::string header_of(std::span<const Record* const> records,
                      const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  for (const auto& [key, value] : metadata) {
    require(is_utf8(key) && is_utf8(value), Code::kInvalid, "exporting metadata: it is not UTF-8");
    json += cat(json.size() == 1 ? "\"__metadata__\":{" : ",", quoted(key), ":", quoted(value));
  }
  if (!metadata.empty()) json += '}';
  uint64_t end = 0;
  for (const Record* record : records) {
    const uint64_t begin = end;
    end += checked_bytes(*record);
    std::string dims;
    for (const int64_t size : record->dims) dims += cat(dims.empty() ? "" : ",", size);
    json += cat(json.size() == 1 ? "" : ",", quoted(record->name), ":{\"dtype\":\"",
                type_name(record->dtype), "\",\"shape\":[", dims, "],\"data_offsets\":[", begin,
                ",", end, "]}");
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');  // so that the tensors start aligned
  return json;
}

}  // namespace

void write(ByteSink& sink, std::span<const Record> records,
           const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  std::vector<const Record*> ordered;
  for (const Record& record : records) {
    require(names.insert(record.name).second, Code::kInvalid, "exporting tensor ", record.name,
            ": it is given twice");
    ordered.push_back(&record);
  }
  std::ranges::stable_sort(ordered, std::ranges::greater(),
                           [](const Record* record) { return dtype_size(record->dtype); });
  const std::string header = header_of(ordered, metadata);
  const uint64_t length = header.size();
  sink.write(&length, sizeof length);
  sink.write(header.data(), header.size());
  for (const Record* record : ordered) {
    const std::span<const std::byte> data = record->data();
    const uint64_t expected = checked_bytes(*record);
    require(data.size() == expected, Code::kInvalid, "exporting tensor ", record->name,
            ": its shape takes ", expected, " bytes, it has ", data.size());
    sink.write(data.data(), data.size());
  }
  sink.commit();
}

void write(const std::string& path, std::span<const Record> records,
           const std::map<std::string, std::string>& metadata) {
  remove_stale_temporaries(path);
  checkpoint::FileSink sink(path);
  write(sink, records, metadata);
}

}  // namespace assay::safetensors
