// A described network written into graphs, and the model that it is.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sdk/nn/builder.h"
#include "sdk/nn/model.h"
#include "sdk/nn/network_description.h"

namespace assay::nn {

// Writes a description into one builder, in the builder's mode. The description may grow meanwhile.
class NetworkReplay {
 public:
  NetworkReplay(const NetworkDescription& network, Builder& builder)
      : network_(network), b_(builder) {}

  // Invalid where this mode does not have it.
  ValueId value(const NetworkSource& source);
  // Emits layer `index`, the first after those emitted or skipped. kInvalid names the layer whose
  // operands have types that it does not take.
  void emit(size_t index);
  void skip() { layers_.push_back({}); }

 private:
  ValueId checked(const NetworkDescription::LayerStep& step, const std::string& name,
                  const std::vector<ValueId>& inputs);
  // The same failure, which tells what the layer reads unless a key is at fault.
  Error explained(const Error& error, const NetworkDescription::LayerStep& step,
                  const std::vector<ValueId>& inputs) const;
  void check_range(const std::string& name, NetworkSource source, int64_t classes);

  const NetworkDescription& network_;
  Builder& b_;
  std::vector<ValueId> inputs_, layers_;
};

// The model of a description: each mode computes what its outputs need. What must hold of all of it
// is the writer's to check.
class Network : public Model {
 public:
  // What one mode needs for its outputs.
  struct Live {
    std::vector<bool> inputs, layers;
  };

  explicit Network(const NetworkConfig& config);

  std::string architecture() const override { return std::string(kNetworkArchitecture); }
  std::string config_json() const override { return to_json(network_.config()); }
  std::vector<InputSpec> inputs(Mode mode) const override;
  Outputs forward(Builder& b) const override;

  const NetworkConfig& config() const { return network_.config(); }
  const Live& live(Mode mode) const { return live_[static_cast<size_t>(mode)]; }

 private:
  Live find_live(Mode mode) const;
  void add_output(Outputs& outputs, Builder& b, NetworkReplay& replay, size_t i) const;

  NetworkDescription network_;
  std::array<Live, kNetworkModes.size()> live_;
};

}  // namespace assay::nn
