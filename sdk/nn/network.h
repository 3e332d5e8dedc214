// A network that a host describes layer by layer: kept as data, which is its configuration, and
// written into graphs of any mode and batch size like every other model.
//
//   nn::NetworkWriter network("spots");
//   auto x = network.input("image", R"({"shape": [16, 16, 1]})");
//   x = network.layer("conv2d", "conv", R"({"channels": 8})", {x});
//   ...
//   network.output("loss", loss, {}, "");
//   std::unique_ptr<nn::Model> model = network.finish();
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/nn/layer_kind.h"
#include "sdk/nn/model.h"

namespace assay::nn {

// Model::architecture() of all of them.
inline constexpr std::string_view kNetworkArchitecture = "graph";

// What one layer may read.
inline constexpr size_t kMostOperands = 64;

// Keys of an input.
struct NetworkInputConfig {
  std::vector<int64_t> shape;
  std::string dtype = "f32";
  bool label = false;
  std::vector<int64_t> range;
  std::optional<int64_t> padding;
  void fields(ConfigFields& f);
};

// Keys of an output.
struct NetworkOutputConfig {
  std::optional<std::string> reduction;
  void fields(ConfigFields& f);
};

// The description. What a layer reads, and what is an output, are names of inputs and layers.
struct NetworkConfig {
  struct Input {
    std::string name;
    NetworkInputConfig attributes;
    void fields(ConfigFields& f);
  };
  struct Layer {
    std::string kind, name;
    std::vector<std::string> inputs;
    JsonText attributes;  // keys of the kind, all of them
    void fields(ConfigFields& f);
  };
  struct Output {
    std::string name, value, weight;  // weight: "" if it has none
    NetworkOutputConfig attributes;
    void fields(ConfigFields& f);
  };
  std::string name;
  std::vector<Input> inputs;
  std::vector<Layer> layers;
  std::vector<Output> outputs;
  void fields(ConfigFields& f);
};

// A value of a network being written: its place in NetworkWriter::values().
struct NetworkValue {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
};

// Describes a network. Every call is checked as it is made, its shapes too, in batches of two
// samples; a failed one changes nothing. kInvalid names the layer, what it was given and what it
// takes.
class NetworkWriter {
 public:
  // kRead: out of a file, which may say what had no effect when it was written.
  enum class Origin { kWritten, kRead };
  explicit NetworkWriter(std::string name, Origin origin = Origin::kWritten);
  ~NetworkWriter();

  NetworkValue input(const std::string& name, std::string_view attributes_json);
  NetworkValue layer(std::string_view kind, const std::string& name,
                     std::string_view attributes_json, std::span<const NetworkValue> inputs);
  // `weight` may be invalid.
  void output(const std::string& name, NetworkValue value, NetworkValue weight,
              std::string_view attributes_json);
  // The model. Fails unless there is a loss that every parameter leads to, and something to
  // predict.
  std::unique_ptr<Model> finish() const;

  const NetworkConfig& config() const;
  // In the order of their making; types are those of batches of two.
  struct Value {
    std::string_view name;
    ValueType type;
  };
  std::vector<Value> values() const;
  size_t size() const;  // of values()

 private:
  class Draft;
  std::unique_ptr<Draft> draft_;
};

// The model that a configuration describes (Model::config_json): checked as if written anew.
std::unique_ptr<Model> read_network(std::string_view config_json);

}  // namespace assay::nn
