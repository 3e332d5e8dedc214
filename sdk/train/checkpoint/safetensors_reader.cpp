// Reading safetensors: the header is JSON from anywhere, so nothing in it is trusted before the
// tensors are known to cover the rest of the file exactly.
#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <utility>

#include "sdk/base/error.h"
#include "sdk/base/json_text.h"
#include "sdk/base/utf8.h"
#include "sdk/train/checkpoint/safetensors.h"
#include "sdk/train/checkpoint/tensor_layout.h"

namespace assay::safetensors {
namespace {

using Kind = JsonValue::Kind;

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr uint64_t kLengthBytes = 8;
// Headers of the largest models have a few MB; parsed, they take up to sixty times that.
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr int64_t kMaxExactInteger = int64_t{1} << 53;  // other readers take numbers as doubles

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

JsonValue parse_header(const std::string& text, const Complaint& complaint) {
  try {
    return parse_json_text({text, "header"});
  } catch (const Error& error) {
    complaint.unless(false, "its header is not valid JSON: ", error.message());
    throw;
  }
}

JsonValue read_header(const ByteSource& source, uint64_t& data_begin) {
  const Complaint complaint(source.name(), "");
  complaint.unless(source.size() >= kLengthBytes, "it has only ", source.size(), " bytes");
  // Before the length is looked at: that of a zip archive would only be called too large.
  char beginning[4] = {};
  source.read_at(beginning, sizeof beginning, 0);
  require(std::string_view(beginning, sizeof beginning) != "PK\x03\x04", Code::kFormat,
          source.name(), ": it is a zip archive, as checkpoints are: load it as one");
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
  data_begin = kLengthBytes + length;
  return parse_header(text, complaint);
}

const JsonValue& field(const JsonValue& object, std::string_view key, const Complaint& complaint) {
  const auto found = std::ranges::find(object.members, key, &JsonMember::key);
  complaint.unless(found != object.members.end(), "it has no ", key);
  return found->value;
}

std::vector<int64_t> integers(const JsonValue& value, std::string_view what,
                              const Complaint& complaint) {
  complaint.unless(value.kind == Kind::kList, what, " is not a list");
  std::vector<int64_t> numbers;
  for (const JsonValue& entry : value.items) {
    int64_t number = -1;
    const char* end = entry.text.data() + entry.text.size();
    const auto [rest, error] = std::from_chars(entry.text.data(), end, number);
    complaint.unless(entry.kind == Kind::kNumber && error == std::errc() && rest == end &&
                         number >= 0 && number <= kMaxExactInteger,
                     what, " has an entry that is not a whole number of 0 or more");
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<uint64_t> product(std::span<const int64_t> dims, uint64_t element_bytes) {
  const std::optional<uint64_t> elements = checkpoint::tensor_bytes(dims, DType::kU8);
  uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, element_bytes, &bytes)) return std::nullopt;
  return bytes;
}

Tensor parse_tensor(std::string_view file, const std::string& name, const JsonValue& value,
                    uint64_t data_begin, uint64_t file_bytes) {
  Complaint(file, "").unless(checkpoint::is_tensor_name(name),
                             "a tensor has an empty, overlong or unprintable name");
  const Complaint complaint(file, name);
  complaint.unless(value.kind == Kind::kObject, "its description is not an object");
  complaint.unless(value.members.size() == 3, "it has ", value.members.size(),
                   " fields instead of dtype, shape, data_offsets");
  Tensor tensor;
  tensor.name = name;
  tensor.type = field(value, "dtype", complaint).text;
  tensor.dims = integers(field(value, "shape", complaint), "shape", complaint);
  const auto offsets = integers(field(value, "data_offsets", complaint), "data_offsets", complaint);
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

std::map<std::string, std::string> parse_metadata(std::string_view file, const JsonValue& value) {
  const Complaint complaint(file, "");
  complaint.unless(value.kind == Kind::kObject, "__metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const JsonMember& member : value.members) {
    complaint.unless(member.value.kind == Kind::kText, "a value in __metadata__ is no text");
    metadata.emplace(member.key, member.value.text);
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
  const JsonValue header = read_header(*source, data_begin);
  Reader reader;
  for (const JsonMember& member : header.members) {
    if (member.key == "__metadata__") {
      reader.metadata_ = parse_metadata(source->name(), member.value);
    } else {
      reader.tensors_.push_back(
          parse_tensor(source->name(), member.key, member.value, data_begin, source->size()));
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
