// Samples of the host become records: of "arrays" their numbers one after the other, of the other
// kinds a tf.train.Example as conversions write it, so that the same transforms read both.
#include "capi/src/host_samples.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "capi/src/abi.h"
#include "capi/src/configuration.h"
#include "sdk/base/config.h"
#include "sdk/base/expect.h"
#include "sdk/data/array_transform.h"
#include "sdk/data/augment/detection_transform.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/augment/jpeg_transform.h"
#include "sdk/data/augment/micrograph_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"

namespace assay::capi {
namespace {

constexpr std::string_view kOf = "samples";
constexpr int64_t kMaxSampleBytes = int64_t{1} << 28;  // as of a record in a file

struct HostArrayConfig {
  std::string name;
  std::string dtype = "f32";
  std::vector<int64_t> shape;
  bool label = false;
  void fields(ConfigFields& f) {
    f("name", name, "as the model calls its input");
    f("dtype", dtype, "of its numbers").one_of({"f32", "i32", "i64", "u8"});
    f("shape", shape, "of one sample; [] is one number")
        .in({1, static_cast<double>(kMaxSampleBytes), true});
    f("label", label, "rows of padding hold -1; of i32");
  }
};

struct HostSampleConfig {
  std::string kind = "arrays";
  std::vector<HostArrayConfig> arrays;
  std::vector<int64_t> image;
  std::optional<int64_t> classes;
  void fields(ConfigFields& f) {
    f("kind", kind, "what is given for a sample")
        .one_of({"arrays", "images", "photographs", "objects", "micrographs"})
        .selects();
    f("arrays", arrays, "in the order of a batch").of({"arrays"});
    f("image", image, "rows, columns, channels").of({"images"}).in({1, 16384, true});
    f("classes", classes, "labels are below it")
        .of({"images", "photographs", "objects"})
        .in({1, std::numeric_limits<int32_t>::max(), true});
  }
};

DType dtype_named(std::string_view name) {
  for (const DType dtype : {DType::kI32, DType::kI64, DType::kU8}) {
    if (assay::to_text(dtype) == name) return dtype;
  }
  return DType::kF32;
}

// Bytes of numbers in this shape; kInvalid where that is more than a sample may have.
int64_t checked_bytes(const std::vector<int64_t>& shape, DType dtype, const std::string& key) {
  auto bytes = static_cast<int64_t>(dtype_size(dtype));
  for (const int64_t size : shape) {
    expect(size <= kMaxSampleBytes / bytes, {kOf, key}, assay::to_text(Dims(shape)),
           "at most 2^28 bytes");
    bytes *= size;
  }
  return bytes;
}

std::vector<data::ArraySpec> array_specs(const std::vector<HostArrayConfig>& arrays) {
  expect(!arrays.empty(), {kOf, "arrays"}, "not given", "a list of what a sample holds");
  std::vector<data::ArraySpec> specs;
  std::set<std::string_view> names;
  int64_t bytes = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const HostArrayConfig& array = arrays[i];
    const std::string key = cat("arrays[", i, "]");
    expect(!array.name.empty() && names.insert(array.name).second, {kOf, key + ".name"},
           array.name.empty() ? "not given" : cat('"', array.name, '"'), "a name of its own");
    expect(!array.label || array.dtype == "i32", {kOf, key + ".label"}, cat("of ", array.dtype),
           "of i32");
    // The batch adds a dimension.
    expect(array.shape.size() < Dims::kMaxRank, {kOf, key + ".shape"}, array.shape.size(),
           "at most ", Dims::kMaxRank - 1, " sizes");
    const DType dtype = dtype_named(array.dtype);
    bytes += checked_bytes(array.shape, dtype, key + ".shape");
    expect(bytes <= kMaxSampleBytes, {kOf, "arrays"}, cat(bytes, " bytes"), "at most 2^28 bytes");
    specs.push_back({array.name, dtype, Dims(array.shape), array.label ? -1 : 0});
  }
  return specs;
}

data::ImageShape image_shape(const std::vector<int64_t>& image) {
  expect(image.size() == 3, {kOf, "image"},
         image.empty() ? "not given" : cat(image.size(), " numbers"), "[rows, columns, channels]");
  checked_bytes(image, DType::kU8, "image");
  return {static_cast<int>(image[0]), static_cast<int>(image[1]), static_cast<int>(image[2])};
}

int64_t classes_of(const HostSampleConfig& config) {
  expect(config.classes.has_value(), {kOf, "classes"}, "not given", "how many there are");
  return *config.classes;
}

template <class Config>
Config transform_config(std::string_view json) {
  Config config;
  parse_json(json, config, "transform");
  return config;
}

data::Transform transform_of(const HostSampleConfig& config, std::string_view json) {
  if (config.kind == "images") {
    return data::make_image_transform({image_shape(config.image), classes_of(config)},
                                      transform_config<data::ImageTransformConfig>(json));
  }
  if (config.kind == "photographs") {
    return data::make_jpeg_transform(classes_of(config),
                                     transform_config<data::JpegTransformConfig>(json));
  }
  if (config.kind == "objects") {
    return data::make_detection_transform(classes_of(config),
                                          transform_config<data::DetectionTransformConfig>(json));
  }
  if (config.kind == "micrographs")
    return data::make_micrograph_transform(transform_config<data::MicrographTransformConfig>(json));
  expect(json.empty(), {"", "transform_json"}, excerpt(json), "nothing for arrays");
  return data::make_array_transform(array_specs(config.arrays));
}

// What the host gives of one sample. Exceptions must not cross its code: the first is kept until it
// has returned.
struct GivenSample {
  virtual ~GivenSample() = default;
  virtual void take(std::string_view name, assay_dtype dtype, const void* data, size_t n) = 0;

  std::exception_ptr error;
};

void take_given(void* to, assay_str name, assay_dtype dtype, const void* data, size_t elements) {
  auto& given = *static_cast<GivenSample*>(to);
  if (given.error) return;
  try {
    check_array(data, elements, "data");
    given.take(to_text(name, "name"), dtype, data, elements);
  } catch (...) {
    given.error = std::current_exception();
  }
}

// Into the places that they have in the record.
struct GivenArrays : GivenSample {
  GivenArrays(const std::vector<data::ArraySpec>& in_specs, std::string& in_record)
      : specs(in_specs), record(in_record), is_there(in_specs.size()) {
    record.resize(data::array_record_bytes(specs));
  }

  void take(std::string_view name, assay_dtype dtype, const void* data, size_t n) override {
    char* place = record.data();
    for (size_t k = 0; k < specs.size(); place += specs[k].sample_bytes(), ++k) {
      const data::ArraySpec& spec = specs[k];
      if (spec.name != name) continue;
      const auto type = static_cast<DType>(dtype);
      require(type == spec.dtype && n == static_cast<size_t>(spec.dims.numel()), Code::kCallback,
              "array \"", name, "\" was given as ", assay::to_text(type), "[", n, "], expected ",
              assay::to_text(spec.dtype), "[", spec.dims.numel(), "]");
      require(!is_there[k], Code::kCallback, "array \"", name, "\" was given twice");
      std::memcpy(place, data, spec.sample_bytes());
      is_there[k] = true;
      return;
    }
    fail(Code::kCallback, cat("array ", excerpt(name), " was given, expected ", names()));
  }

  void finish() const {
    for (size_t k = 0; k < specs.size(); ++k)
      require(is_there[k], Code::kCallback, "array \"", specs[k].name, "\" was not given");
  }

  std::string names() const {
    std::vector<std::string_view> all;
    for (const data::ArraySpec& spec : specs) all.push_back(spec.name);
    return enumerate(all, true);
  }

  const std::vector<data::ArraySpec>& specs;
  std::string& record;
  std::vector<bool> is_there;
};

// What a sample of a kind may hold: what its transform reads, and what else records of data sets
// hold, so that a host can pass those on.
using Names = std::span<const std::string_view>;
constexpr std::string_view kOfImages[] = {"image", "label"};
constexpr std::string_view kOfPhotographs[] = {"jpeg", "label", "id"};
constexpr std::string_view kOfObjects[] = {"image/encoded",
                                           "image/object/bbox/ymin",
                                           "image/object/bbox/xmin",
                                           "image/object/bbox/ymax",
                                           "image/object/bbox/xmax",
                                           "image/object/class/label",
                                           "image/object/is_crowd",
                                           "image/source_id",
                                           "image/format",
                                           "image/key/sha256",
                                           "image/filename",
                                           "image/height",
                                           "image/width",
                                           "image/object/area",
                                           "image/object/class/text"};
constexpr std::string_view kOfMicrographs[] = {"image", "mask", "height", "width"};

Names features_of(std::string_view kind) {
  if (kind == "images") return kOfImages;
  if (kind == "photographs") return kOfPhotographs;
  if (kind == "objects") return kOfObjects;
  if (kind == "micrographs") return kOfMicrographs;
  return {};
}

// As features of an example, whose transform knows which of them there must be.
struct GivenFeatures : GivenSample {
  explicit GivenFeatures(Names in_names) : names(in_names) {}

  void take(std::string_view given_name, assay_dtype dtype, const void* data, size_t n) override {
    require(std::ranges::find(names, given_name) != names.end(), Code::kCallback, "feature ",
            excerpt(given_name), " was given, expected ", enumerate(names, true));
    const std::string name(given_name);
    require(!data::has_feature(example, name), Code::kCallback, "feature \"", name,
            "\" was given twice");
    const auto type = static_cast<DType>(dtype);
    const size_t size = std::max<size_t>(dtype_size(type), 1);
    require(n <= left / size, Code::kCallback, "feature \"", name, "\" was given as ", n,
            " numbers, expected at most 2^28 bytes in all");
    left -= n * size;
    if (type == DType::kU8) {
      data::set_bytes_feature(example, name, {static_cast<const char*>(data), n});
    } else if (type == DType::kF32) {
      data::set_floats_feature(example, name, {static_cast<const float*>(data), n});
    } else if (type == DType::kI64) {
      data::set_int64s_feature(example, name, {static_cast<const int64_t*>(data), n});
    } else if (type == DType::kI32) {
      const auto* from = static_cast<const int32_t*>(data);
      data::set_int64s_feature(example, name, std::vector<int64_t>(from, from + n));
    } else {
      fail(Code::kCallback, cat("feature \"", name, "\" was given as ", assay::to_text(type),
                                ", expected u8, i32, i64 or f32"));
    }
  }

  Names names;
  data::Example example;
  size_t left = static_cast<size_t>(kMaxSampleBytes);
};

class Source : public HostSource {
 public:
  Source(const assay_samples& samples, const HostSampleConfig& config,
         const std::vector<data::ArraySpec>& arrays)
      : samples_(samples),
        arrays_(config.kind == "arrays" ? arrays : std::vector<data::ArraySpec>()),
        features_(features_of(config.kind)),
        image_(config.image) {}
  ~Source() override {
    if (owns_ && samples_.release != nullptr) samples_.release(samples_.user);
  }

  void own() override { owns_ = true; }
  int64_t size() const override { return samples_.count; }
  std::string where(int64_t index) const override { return cat("sample ", index); }

  void read(int64_t index, std::string& payload) const override {
    if (!arrays_.empty()) {
      GivenArrays given(arrays_, payload);
      ask(index, given, [&] { given.finish(); });
      return;
    }
    GivenFeatures given(features_);
    ask(index, given, [&] {
      if (!image_.empty()) {  // what an image's record says of its size
        data::set_int64_feature(given.example, "height", image_[0]);
        data::set_int64_feature(given.example, "width", image_[1]);
        data::set_int64_feature(given.example, "channels", image_[2]);
      }
      data::serialize_example(given.example, payload);
    });
  }

 private:
  template <class Finish>
  void ask(int64_t index, GivenSample& given, Finish&& finish) const {
    const int32_t answer = samples_.sample(samples_.user, index, take_given, &given);
    if (answer != 0) {
      fail(Code::kCallback, cat(where(index), ": the host's function returned ", answer),
           {.domain = Domain::kHost, .native_code = answer});
    }
    try {
      if (given.error) std::rethrow_exception(given.error);
      finish();
    } catch (const Error& error) {
      throw Error(Code::kCallback, cat(where(index), ": ", error.message()), error.detail());
    }
  }

  assay_samples samples_;
  std::vector<data::ArraySpec> arrays_;  // empty unless the kind is "arrays"
  Names features_;                       // none of arrays
  std::vector<int64_t> image_;           // empty unless the kind is "images"
  bool owns_ = false;
};

}  // namespace

HostSamples host_samples(const assay_samples& samples, std::string_view sample_json,
                         std::string_view transform_json) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max() - int64_t{1};
  expect(samples.count >= 1 && samples.count <= kMost, {"", "samples->count"}, samples.count,
         "1 to 2^32 - 2");
  if (samples.sample == nullptr) fail_null("samples->sample");
  const auto config = parsed<HostSampleConfig>(sample_json, kOf);
  data::Transform transform = transform_of(config, transform_json);
  auto source = std::make_shared<Source>(samples, config, transform.arrays);
  return {std::move(source), std::move(transform)};
}

}  // namespace assay::capi
