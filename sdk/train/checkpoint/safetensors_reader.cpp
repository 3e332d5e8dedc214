#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "sdk/base/error.h"
#include "sdk/base/utf8.h"
#include "sdk/train/checkpoint/safetensors.h"
#include "sdk/train/checkpoint/tensor_layout.h"

namespace assay::safetensors {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr uint64_t kLengthBytes = 8;
// Headers of the largest models have a few MB; parsed, they take some twenty times that.
constexpr uint64_t kMaxHeaderBytes = uint64_t{32} << 20;
constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53: JSON numbers arrive as doubles

struct ElementType {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> dtype;
};
constexpr ElementType kElementTypes[] = {
    {"F32", 4, DType::kF32}, {"BF16", 2, DType::kBf16},
    {"F16", 2, DType::kF16}, {"F64", 8, DType::kF64},
    {"I32", 4, DType::kI32}, {"I64", 8, DType::kI64},
    {"U8", 1, DType::kU8},   {"BOOL", 1, {}},
    {"I8", 1, {}},           {"I16", 2, {}},
    {"U16", 2, {}},          {"U32", 4, {}},
    {"U64", 8, {}},          {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},      {"C64", 8, {}},
};

// Raises kFormat about one tensor of one file, or about the file.
class Complaint {
 public:
  Complaint(std::string_view file, std::string_view tensor) : file_(file), tensor_(tensor) {}
  template <class... Parts>
  void unless(bool ok, const Parts&... parts) const {
    require(ok, Code::kFormat, file_, tensor_.empty() ? "" : ": tensor ", tensor_, ": ", parts...,
            "; the file is damaged or not safetensors");
  }

 private:
  std::string_view file_;
  std::string_view tensor_;
};

Struct read_header(const ByteSource& source, uint64_t& data_begin) {
  const Complaint complaint(source.name(), "");
  complaint.unless(source.size() >= kLengthBytes, "it has only ", source.size(), " bytes");
  char beginning[4];
  source.read_at(beginning, sizeof beginning, 0);
  complaint.unless(std::string_view(beginning, sizeof beginning) != "PK\x03\x04",
                   "it is a zip archive, as checkpoints are");
  uint64_t length = 0;
  source.read_at(&length, sizeof length, 0);
  complaint.unless(length <= source.size() - kLengthBytes, "its header claims ", length,
                   " bytes, the file has ", source.size());
  complaint.unless(length <= kMaxHeaderBytes, "its header claims ", length, " bytes, more than ",
                   kMaxHeaderBytes);
  std::string text(static_cast<size_t>(length), '\0');
  source.read_at(text.data(), text.size(), kLengthBytes);
  complaint.unless(text.starts_with('{') && is_utf8(text),
                   "its header is not a JSON object in UTF-8");
  Struct header;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &header);
  // Only the first line: the others repeat the text around the fault.
  const std::string reason(status.message());
  complaint.unless(status.ok(), "its header is not valid JSON: ",
                   std::string_view(reason).substr(0, reason.find('\n')));
  data_begin = kLengthBytes + length;
  return header;
}

const Value& field(const Struct& object, const char* key, const Complaint& complaint) {
  const auto found = object.fields().find(key);
  complaint.unless(found != object.fields().end(), "it has no ", key);
  return found->second;
}

uint64_t integer(const Value& value, std::string_view what, const Complaint& complaint) {
  const double number = value.number_value();
  complaint.unless(value.kind_case() == Value::kNumberValue && number >= 0 &&
                       number <= kMaxExactInteger && number == std::floor(number),
                   what, " has an entry that is not a whole number of 0 or more");
  return static_cast<uint64_t>(number);
}

std::vector<int64_t> integers(const Value& value, std::string_view what,
                              const Complaint& complaint) {
  complaint.unless(value.kind_case() == Value::kListValue, what, " is not a list");
  std::vector<int64_t> numbers;
  for (const Value& entry : value.list_value().values()) {
    numbers.push_back(static_cast<int64_t>(integer(entry, what, complaint)));
  }
  return numbers;
}

std::optional<uint64_t> product(std::span<const int64_t> dims, uint64_t element_bytes) {
  const std::optional<uint64_t> elements = checkpoint::tensor_bytes(dims, DType::kU8);
  uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, element_bytes, &bytes)) return std::nullopt;
  return bytes;
}

Tensor parse_tensor(std::string_view file, const std::string& name, const Value& value,
                    uint64_t data_begin, uint64_t file_bytes) {
  Complaint(file, "").unless(checkpoint::is_tensor_name(name),
                             "a tensor has an empty, overlong or unprintable name");
  const Complaint complaint(file, name);
  complaint.unless(value.kind_case() == Value::kStructValue, "its description is not an object");
  const Struct& object = value.struct_value();
  complaint.unless(object.fields_size() == 3, "it has ", object.fields_size(),
                   " fields instead of dtype, shape, data_offsets");
  Tensor tensor;
  tensor.name = name;
  tensor.type = field(object, "dtype", complaint).string_value();
  tensor.dims = integers(field(object, "shape", complaint), "shape", complaint);
  const auto offsets =
      integers(field(object, "data_offsets", complaint), "data_offsets", complaint);
  const auto type = std::ranges::find(kElementTypes, tensor.type, &ElementType::name);
  complaint.unless(type != std::end(kElementTypes), "its element type is unknown");
  tensor.dtype = type->dtype;

  complaint.unless(offsets.size() == 2 && offsets[0] <= offsets[1],
                   "data_offsets is not a pair of ascending numbers");
  tensor.offset = data_begin + static_cast<uint64_t>(offsets[0]);
  tensor.bytes = static_cast<uint64_t>(offsets[1] - offsets[0]);
  complaint.unless(checkpoint::inside(tensor.offset, tensor.bytes, data_begin, file_bytes),
                   "it ends at byte ", tensor.offset + tensor.bytes, ", the file at ", file_bytes);
  const std::optional<uint64_t> expected = product(tensor.dims, type->bytes);
  complaint.unless(expected == tensor.bytes, "its shape does not match its ", tensor.bytes,
                   " bytes");
  return tensor;
}

// Tensors in file order must follow each other without overlap or hole up to the end.
void check_cover(std::span<const Tensor> tensors, std::string_view file, uint64_t data_begin,
                 uint64_t file_bytes) {
  uint64_t end = data_begin;
  for (const Tensor& tensor : tensors) {
    Complaint(file, tensor.name)
        .unless(tensor.offset == end, "it starts at byte ", tensor.offset,
                ", the tensor before it ends at byte ", end);
    end = tensor.offset + tensor.bytes;
  }
  Complaint(file, "").unless(end == file_bytes, "its tensors end at byte ", end, ", the file at ",
                             file_bytes);
}

std::map<std::string, std::string> parse_metadata(std::string_view file, const Value& value) {
  const Complaint complaint(file, "");
  complaint.unless(value.kind_case() == Value::kStructValue, "__metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.struct_value().fields()) {
    complaint.unless(text.kind_case() == Value::kStringValue, "a value in __metadata__ is no text");
    metadata.emplace(key, text.string_value());
  }
  return metadata;
}

}  // namespace

bool looks_like(const ByteSource& source) {
  if (source.size() <= kLengthBytes) return false;
  uint64_t length = 0;
  char first = 0;
  source.read_at(&length, sizeof length, 0);
  source.read_at(&first, 1, kLengthBytes);
  return first == '{' && length <= source.size() - kLengthBytes;
}

Reader Reader::open(const std::string& path) {
  return open(std::make_unique<checkpoint::FileSource>(path));
}

Reader Reader::open(std::unique_ptr<ByteSource> source) {
  uint64_t data_begin = 0;
  const Struct header = read_header(*source, data_begin);
  Reader reader;
  for (const auto& [name, value] : header.fields()) {
    if (name == "__metadata__") {
      reader.metadata_ = parse_metadata(source->name(), value);
    } else {
      reader.tensors_.push_back(
          parse_tensor(source->name(), name, value, data_begin, source->size()));
    }
  }
  // Empty tensors come before the one that starts at the same byte; names make the order unique.
  std::ranges::sort(reader.tensors_, {}, [](const Tensor& tensor) {
    return std::tie(tensor.offset, tensor.bytes, tensor.name);
  });
  check_cover(reader.tensors_, source->name(), data_begin, source->size());
  reader.source_ = std::move(source);
  return reader;
}

const Tensor* Reader::find(std::string_view tensor) const {
  const auto found = std::ranges::find(tensors_, tensor, &Tensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

void Reader::read(const Tensor& tensor, std::span<std::byte> target) const {
  require(target.size() == tensor.bytes, Code::kInvalid, name(), ": tensor ", tensor.name, " has ",
          tensor.bytes, " bytes, the place for it ", target.size());
  source_->read_at(target.data(), target.size(), tensor.offset);
}

}  // namespace assay::safetensors
