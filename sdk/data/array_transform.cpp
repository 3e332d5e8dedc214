#include "sdk/data/array_transform.h"

#include <cstring>

namespace assay::data {
namespace {

class ArrayMaker : public SampleMaker {
 public:
  explicit ArrayMaker(const std::vector<ArraySpec>& arrays) : bytes_(array_record_bytes(arrays)) {
    for (const ArraySpec& array : arrays) sizes_.push_back(array.sample_bytes());
  }

  void prepare(std::string_view record, std::string& prepared) override {
    require(record.size() == bytes_, Code::kFormat, "the record has ", record.size(),
            " bytes, expected ", bytes_);
    prepared.assign(record);
  }

  void finish(std::string_view prepared, PhiloxStream&,
              std::span<std::byte* const> arrays) override {
    const char* from = prepared.data();
    for (size_t k = 0; k < arrays.size(); from += sizes_[k], ++k)
      std::memcpy(arrays[k], from, sizes_[k]);
  }

 private:
  size_t bytes_;
  std::vector<size_t> sizes_;
};

}  // namespace

size_t array_record_bytes(const std::vector<ArraySpec>& arrays) {
  size_t bytes = 0;
  for (const ArraySpec& array : arrays) bytes += array.sample_bytes();
  return bytes;
}

Transform make_array_transform(std::vector<ArraySpec> arrays) {
  Transform transform;
  transform.make_worker = [arrays] { return std::make_unique<ArrayMaker>(arrays); };
  transform.arrays = std::move(arrays);
  return transform;
}

}  // namespace assay::data
