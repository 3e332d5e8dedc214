// A kind of layer that networks may be described with (network.h): its keys, what it reads, and the
// nodes it stands for. Each is one struct:
//
//   struct DropoutLayer {
//     static constexpr LayerText kText{"dropout", "elements are zero with this probability ..."};
//     static constexpr std::array kInputs{numbers("x", 1)};
//     double rate = 0.5;
//     void fields(ConfigFields& f) { f("rate", rate, "of elements that become zero").in({0, 1}); }
//     ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
//       return dropout(b, name, x[0], static_cast<float>(rate));
//     }
//   };
//
// and a row in one of the three tables below.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sdk/base/config.h"
#include "sdk/base/expect.h"
#include "sdk/nn/builder.h"

namespace assay::nn {

using LayerInputs = std::span<const ValueId>;

// What an input must be; in messages `name` and `shape` ("[N,H,W,C]") say it.
struct LayerInput {
  enum class Type : int32_t { kNumbers, kIntegers, kEither };
  std::string_view name, shape;
  int least_rank = 0, most_rank = Dims::kMaxRank;
  Type type = Type::kNumbers;
};
std::string to_text(const LayerInput& input);  // "i32 [N]"

constexpr LayerInput numbers(std::string_view name, int least_rank = 0) {
  return {name, least_rank == 0 ? "[...]" : "[N,...]", least_rank};
}
constexpr LayerInput with_channels(std::string_view name) { return {name, "[N,...,C]", 2}; }
constexpr LayerInput images(std::string_view name) { return {name, "[N,H,W,C]", 4, 4}; }
constexpr LayerInput rows(std::string_view name) { return {name, "[N,C]", 2, 2}; }
constexpr LayerInput tokens(std::string_view name) { return {name, "[N,L,C]", 3, 3}; }
constexpr LayerInput integers(std::string_view name, std::string_view shape, int least_rank,
                              int most_rank = Dims::kMaxRank) {
  return {name, shape, least_rank, most_rank, LayerInput::Type::kIntegers};
}
constexpr LayerInput either(std::string_view name) {
  return {name, "[N,...]", 1, Dims::kMaxRank, LayerInput::Type::kEither};
}

// Where a layer is computed; elsewhere it and what reads it do not exist.
enum class LayerModes : int32_t { kAll, kEval, kPredict };

struct LayerText {
  std::string_view name, text;
  LayerModes modes = LayerModes::kAll;
  bool repeats = false;  // the last input may come again and again
};

// One layer of a network. Immutable once its keys are set.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual ConfigRef config() = 0;
  // The layer whose parameters these are; empty: its own.
  virtual std::string_view share() const = 0;
  // kInvalid for keys that contradict each other.
  virtual void require_clear(const std::string& name) const = 0;
  // Its integers are indices below this; 0: any are fine.
  virtual int64_t classes(const Builder& b, LayerInputs inputs) const = 0;
  virtual ValueId emit(Builder& b, const std::string& name, LayerInputs inputs) const = 0;
};

struct LayerKind {
  LayerText text;
  std::span<const LayerInput> inputs;
  std::unique_ptr<Layer> (*make)();
};

// Those with parameters; those without; losses and metrics.
std::span<const LayerKind> weight_layers();
std::span<const LayerKind> shape_layers();
std::span<const LayerKind> loss_layers();

// All of them. Fails with kNotFound, listing the names.
const LayerKind& layer_kind(std::string_view name);
std::vector<const LayerKind*> layer_kinds();
// The kinds with inputs, keys, ranges and defaults, for people: what assay_graph.h says of them.
std::string layer_kinds_text();

// kInvalid where padding is given beside "same", which chooses its own.
inline void require_one_padding(const std::string& name, bool same, bool is_given) {
  expect(!same || !is_given, {name, "padding"}, "given",
         "none with \"same\": true, which chooses it");
}

// A layer with its keys from JSON text ("" is all defaults). kInvalid names the key at fault.
std::unique_ptr<Layer> make_layer(const LayerKind& kind, const std::string& name,
                                  std::string_view attributes_json);

namespace detail {

template <class Config>
class LayerOf : public Layer {
 public:
  ConfigRef config() override { return config_ref(config_); }
  std::string_view share() const override {
    if constexpr (requires { config_.share; }) return config_.share;
    return {};
  }
  void require_clear(const std::string& name) const override {
    if constexpr (requires { config_.require_clear(name); }) config_.require_clear(name);
  }
  int64_t classes(const Builder& b, LayerInputs inputs) const override {
    if constexpr (requires { config_.classes(b, inputs); }) return config_.classes(b, inputs);
    return 0;
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs inputs) const override {
    return config_.emit(b, name, inputs);
  }

 private:
  Config config_;
};

}  // namespace detail

template <class Config>
LayerKind kind_of() {
  return {Config::kText, Config::kInputs,
          []() -> std::unique_ptr<Layer> { return std::make_unique<detail::LayerOf<Config>>(); }};
}

}  // namespace assay::nn
