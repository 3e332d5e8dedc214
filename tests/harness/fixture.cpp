#include "tests/harness/fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "sdk/base/json_reader.h"

namespace assay::test {

namespace {

// Where the tests were built, unless they have been carried elsewhere (tools/gpu_check.sh).
std::string source_folder() {
  const char* const moved = std::getenv("ASSAY_SOURCE_DIR");
  return moved != nullptr ? moved : ASSAY_SOURCE_DIR;
}

}  // namespace

Fixture::Fixture(const std::string& name) {
  const std::string path = source_folder() + "/tests/fixtures/" + name + ".safetensors";
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no fixture " + path);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  const JsonReader json({std::string_view(bytes).substr(8, header_size), path});
  const char* data = bytes.data() + 8 + header_size;
  const JsonValue header = json.parse();
  for (const auto& [key, offset, value] : header.members) {
    if (key == "__metadata__") continue;
    std::vector<int64_t> dims;
    for (const JsonValue& size : json.list(value, "shape"))
      dims.push_back(json.to_integer(size, "a dimension"));
    const std::vector<JsonValue>& offsets = json.list(value, "data_offsets");
    const int64_t begin = json.to_integer(offsets.at(0), "an offset");
    const int64_t end = json.to_integer(offsets.at(1), "an offset");
    FixtureTensor& tensor = tensors_[key];
    tensor.dims = Dims(dims);
    const std::string& dtype = json.text(value, "dtype");
    if (dtype == "F32") {
      tensor.f32.resize(static_cast<size_t>(end - begin) / 4);
      std::memcpy(tensor.f32.data(), data + begin, static_cast<size_t>(end - begin));
    } else if (dtype == "I32") {
      tensor.i32.resize(static_cast<size_t>(end - begin) / 4);
      std::memcpy(tensor.i32.data(), data + begin, static_cast<size_t>(end - begin));
    } else {
      throw std::runtime_error(path + ": " + key + " is " + dtype);
    }
  }
}

const FixtureTensor& Fixture::at(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) throw std::runtime_error("the fixture has no tensor " + tensor);
  return found->second;
}

std::map<std::string, const FixtureTensor*> Fixture::with_prefix(const std::string& prefix) const {
  std::map<std::string, const FixtureTensor*> matches;
  for (const auto& [name, tensor] : tensors_) {
    if (name.starts_with(prefix)) matches[name.substr(prefix.size())] = &tensor;
  }
  return matches;
}

double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) throw std::runtime_error("sizes differ");
  double difference = 0, scale = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    difference = std::isnan(error) ? INFINITY : std::max(difference, error);
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
  }
  return scale == 0 ? difference : difference / scale;
}

std::map<std::string, double> bfloat16_yardstick(const std::string& model) {
  const std::string path = source_folder() + "/tests/fixtures/models/" + model + ".bfloat16.tsv";
  std::ifstream file(path);
  std::map<std::string, double> errors;
  std::string tensor;
  for (double error = 0; file >> tensor >> error;) errors[tensor] = error;
  if (!errors.contains("*")) throw std::runtime_error("cannot read " + path);
  return errors;
}

}  // namespace assay::test
