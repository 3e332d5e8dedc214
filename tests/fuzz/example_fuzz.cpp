// Any bytes as a record of labelled images: parsing, checking and reading raise nothing but Error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto transform = assay::data::make_image_transform({{2, 3, 1}, 4}, {});
  static const auto maker = transform.make_worker();
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  std::string prepared;
  float image[6];
  int32_t label;
  std::byte* rows[] = {reinterpret_cast<std::byte*>(image), reinterpret_cast<std::byte*>(&label)};
  try {
    maker->prepare(record, prepared);
    assay::PhiloxStream random(1, 2);
    maker->finish(prepared, random, rows);
  } catch (const assay::Error&) {
  }
  try {
    assay::data::Example example;
    assay::data::parse_example(record, example);
    assay::data::serialize_example(example, prepared);
    assay::data::floats_feature(example, "weights");
  } catch (const assay::Error&) {
  }
  return 0;
}
