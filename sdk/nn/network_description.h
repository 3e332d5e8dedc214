// A network as names and keys, checked one by one as they are added: what NetworkWriter writes and
// what networks are replayed from. Shapes are not known here (network_model.h).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/nn/input.h"
#include "sdk/nn/layer_kind.h"
#include "sdk/nn/network.h"

namespace assay::nn {

inline constexpr std::array kNetworkModes{Mode::kTrain, Mode::kEval, Mode::kPredict};

// An input or a layer, by its place in the configuration.
struct NetworkSource {
  bool is_input = true;
  size_t index = 0;
};

// Every add_ checks what it adds, kInvalid; what fails leaves the description as it was, but for
// add_input and add_layer, behind which keep() cleans up.
class NetworkDescription {
 public:
  struct LayerStep {
    const LayerKind* kind;
    std::unique_ptr<Layer> layer;
    std::vector<NetworkSource> inputs;
    std::array<bool, kNetworkModes.size()> exists{};  // by mode
  };
  struct OutputStep {
    NetworkSource value;
    std::optional<NetworkSource> weight;
  };

  explicit NetworkDescription(std::string name) { config_.name = std::move(name); }

  const NetworkConfig& config() const { return config_; }
  const std::vector<LayerStep>& layers() const { return layers_; }
  const std::vector<OutputStep>& outputs() const { return outputs_; }
  const std::string& name_of(const NetworkSource& source) const;
  NetworkSource find(const std::string& name) const;

  void add_input(NetworkConfig::Input input);
  // The attributes become all keys of the kind.
  void add_layer(NetworkConfig::Layer layer);
  void add_output(NetworkConfig::Output output);
  // Forgets the inputs and layers that came behind these, even one that was added by half.
  void keep(size_t inputs, size_t layers);
  void forget_last_output();

  InputSpec spec(size_t input, Mode mode) const;
  // Predictions do without labels and what is computed of them.
  bool exists(const NetworkSource& source, Mode mode) const;

 private:
  void check_new(const std::string& name) const;
  void check_share(const std::string& name, std::string_view share) const;
  bool all_exist(const LayerStep& step, Mode mode) const;

  NetworkConfig config_;
  std::vector<LayerStep> layers_;
  std::vector<OutputStep> outputs_;
  std::map<std::string, NetworkSource, std::less<>> names_;
};

}  // namespace assay::nn
