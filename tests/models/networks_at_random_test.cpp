// Networks of random layers, as hosts may describe them, on every backend: what passes make of a
// graph computes what the graph without any pass does, but for rounding, and what only spares
// memory the same bits. ASSAY_NETWORKS says how many, ASSAY_FIRST_NETWORK from which seed on.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>

#include "sdk/nn/network.h"
#include "sdk/passes/pipeline.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"
#include "tests/harness/backend_under_test.h"

namespace assay::train {
namespace {

constexpr int64_t kBatch = 3, kClasses = 5;

class RandomNetwork {
 public:
  // Without kinks (relu, maxima) there is no choice that a rounding could turn, and with it the
  // whole gradient of that place.
  RandomNetwork(uint32_t seed, bool has_kinks) : engine_(seed), has_kinks_(has_kinks) {
    const int64_t channels = any({1, 3, 8});
    keep(writer_.input(
        "image", cat(R"({"shape": [)", 5 + below(12), ", ", 5 + below(12), ", ", channels, "]}")));
    for (int i = 0; i < 16; ++i) add_some();
    add_head();
  }

  std::shared_ptr<const nn::Model> model() const { return writer_.finish(); }
  int64_t layers() const { return std::ssize(writer_.config().layers); }

 private:
  struct Known {
    nn::NetworkValue value;
    Dims dims;
    bool is_read = false;
  };
  struct Weighted {
    std::string kind, name, keys;
  };

  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint32_t>(n)); }
  bool once_in(int64_t n) { return below(n) == 0; }
  template <class T>
  T any(std::initializer_list<T> of) {
    return of.begin()[below(std::ssize(of))];
  }

  // Mostly what nobody reads yet.
  size_t any_value() {
    const auto draw = [this] { return static_cast<size_t>(below(std::ssize(known_))); };
    size_t i = draw();
    for (int again = 0; again < 3 && known_[i].is_read; ++again) i = draw();
    return i;
  }
  size_t any_like(size_t x) {
    std::vector<size_t> alike;
    for (size_t i = 0; i < known_.size(); ++i)
      if (known_[i].dims == known_[x].dims && i != x) alike.push_back(i);
    return alike.empty() ? x : alike[static_cast<size_t>(below(std::ssize(alike)))];
  }

  size_t keep(nn::NetworkValue value) {
    const Dims dims = writer_.values()[static_cast<size_t>(value.index)].type.dims;
    known_.push_back({value, dims});
    return known_.size() - 1;
  }
  size_t layer(const std::string& kind, const std::string& keys, const std::vector<size_t>& reads) {
    std::vector<nn::NetworkValue> operands;
    for (const size_t i : reads) operands.push_back(known_[i].value);
    const std::string name = cat(kind, known_.size());
    const auto value = writer_.layer(kind, name, keys, operands);
    for (const size_t i : reads) known_[i].is_read = true;
    if (kind == "conv2d" || kind == "linear") weighted_.push_back({kind, name, keys});
    return keep(value);
  }

  // Nothing more happens where a layer does not take what it is given.
  void add_some() {
    const size_t x = any_value();
    try {
      if (once_in(8)) return add_shared(x);
      if (known_[x].dims.rank() == 4 && once_in(2)) return add_to_images(x);
      if (known_[x].dims.rank() == 4 && once_in(3)) return add_block(x);
      add_to_any(x);
    } catch (const Error&) {
    }
  }

  std::string window() {
    const int64_t rows = any({1, 2, 3, 3, 5}), columns = once_in(4) ? 3 : rows;
    const int64_t stride = any({1, 1, 2});
    const std::string around = once_in(3)
                                   ? std::string(R"("same": true)")
                                   : cat(R"("padding": [)", below(rows), ", ", below(3), "]");
    return cat(R"("kernel": [)", rows, ", ", columns, R"(], "stride": [)", stride, ", ", stride,
               "], ", around, R"(, "bias": )", once_in(2) ? "true" : "false");
  }
  std::string pool() {
    const int64_t size = any({2, 3}), stride = any({1, 2}), padding = below(2);
    return cat(R"({"window": )", size, R"(, "stride": )", stride, R"(, "padding": )", padding, "}");
  }

  void add_to_images(size_t x) {
    const Dims d = known_[x].dims;
    constexpr int64_t kMostToEnlarge = kBatch * 2000;
    switch (below(8)) {
      case 0:
      case 1:
      case 2: {
        const int64_t channels = any({4, 8, 16, 6, 64}), groups = any({1, 1, 1, 2});
        layer("conv2d",
              cat(R"({"channels": )", channels, R"(, "groups": )", groups, ", ", window(), "}"),
              {x});
        return;
      }
      case 3:
        layer("depthwise_conv2d", cat("{", window(), "}"), {x});
        return;
      case 4:
        if (d.numel() > kMostToEnlarge) return;
        if (once_in(3)) {
          layer("resize", "", {x});
          return;
        }
        layer("conv2d_transpose",
              cat(R"({"channels": 8, "kernel": )", once_in(2) ? "[2, 2]" : "[3, 3]", "}"), {x});
        return;
      case 5:
        layer(has_kinks_ ? "max_pool" : "average_pool", pool(), {x});
        return;
      case 6:
        layer("average_pool", pool(), {x});
        return;
      default: {
        const int64_t rows = 1 + below(d[1]), columns = 1 + below(d[2]);
        layer("centre_crop", cat(R"({"rows": )", rows, R"(, "columns": )", columns, "}"), {x});
      }
    }
  }

  void add_block(size_t x) {
    switch (below(4)) {
      case 0:
        return add_attention(x);
      case 1:
        return add_squeeze(x);
      default:
        return add_residual(x);
    }
  }
  void add_attention(size_t x) {
    const Dims d = known_[x].dims;
    const int64_t tokens = d[1] * d[2];
    if (!length_.valid())
      length_ = writer_.input("length", R"({"dtype": "i32", "shape": [], "range": [1, 4]})");
    const size_t flat = layer("reshape", cat(R"({"shape": [-1, )", tokens, ", ", d[3], "]}"), {x});
    const size_t placed = layer("position_embedding", cat(R"({"rows": )", tokens, "}"), {flat});
    keep(writer_.layer("self_attention", cat("attention", known_.size()), attention_,
                       std::vector{known_[placed].value, length_}));
    known_[placed].is_read = true;
  }
  void add_squeeze(size_t x) {
    const int64_t channels = known_[x].dims[3];
    if (once_in(2)) x = activation("swish", normalized(x));
    const size_t means = layer("global_average_pool", "", {x});
    const size_t gates = layer("linear", cat(R"({"features": )", channels, "}"), {means});
    const size_t each = layer("reshape", cat(R"({"shape": [-1, 1, 1, )", channels, "]}"),
                              {activation("sigmoid", gates)});
    layer("multiply", "", {x, each});
  }
  // Of so many pixels that one choice that f16 turns counts little.
  void add_residual(size_t x) {
    constexpr int64_t kFewestPixels = 9;
    if (known_[x].dims[1] * known_[x].dims[2] < kFewestPixels) return;
    const std::string same = cat(R"({"kernel": [3, 3], "same": true, "bias": false, "channels": )",
                                 known_[x].dims[3], "}");
    const size_t inner = activation(any_smooth_or("relu"), normalized(layer("conv2d", same, {x})));
    const size_t outer = normalized(layer("conv2d", same, {inner}));
    const size_t shortcut = once_in(3) ? normalized(layer("conv2d", same, {x})) : x;
    activation(any_smooth_or("relu"), layer("add", "", {outer, shortcut}));
  }

  size_t normalized(size_t x) { return layer("batch_norm", R"({"epsilon": 0.1})", {x}); }
  size_t activation(const std::string& function, size_t x) {
    return layer("activation", cat(R"({"function": ")", function, "\"}"), {x});
  }
  std::string any_smooth_or(const char* kinked) {
    if (has_kinks_ && once_in(2)) return kinked;
    return any({"tanh", "sigmoid", "gelu", "gelu_tanh", "swish"});
  }

  // A layer with the parameters of one before.
  void add_shared(size_t x) {
    if (weighted_.empty()) return;
    const Weighted& w = weighted_[static_cast<size_t>(below(std::ssize(weighted_)))];
    layer(w.kind, cat(w.keys.substr(0, w.keys.size() - 1), R"(, "share": ")", w.name, "\"}"), {x});
  }

  void add_to_any(size_t x) {
    switch (below(14)) {
      case 0:
      case 1:
      case 2: {
        // Three rows may differ by little more than 16 bits hold, which this makes large.
        if (!has_kinks_ && known_[x].dims.rank() < 4) return;
        const size_t y = normalized(x);
        if (once_in(2)) activation(any_smooth_or("relu"), y);
        return;
      }
      case 3:
        layer("layer_norm", R"({"epsilon": 0.1})", {x});
        return;
      case 4:
      case 5:
      case 6:
        activation(any_smooth_or("relu"), x);
        return;
      case 7:
        layer("dropout", R"({"rate": 0.2})", {x});
        return;
      case 8:
      case 9: {
        const size_t other = any_like(x);
        const char* const difference = other == x ? "add" : "subtract";  // not 0, of rounding alone
        layer(any({"add", difference, "multiply"}), "", {x, other});
        return;
      }
      case 10:
        layer("concat", "", {x, any_like(x)});
        return;
      case 11:
        layer("scale", R"({"factor": 0.5, "offset": 0.25})", {x});
        return;
      case 12: {
        const int64_t begin = below(3), size = 1 + below(known_[x].dims.back());
        layer("slice", cat(R"({"begin": )", begin, R"(, "size": )", size, "}"), {x});
        return;
      }
      default:
        layer("linear", cat(R"({"features": )", any({4, 8, 16, 7}), "}"), {x});
    }
  }

  // A classifier of all that nobody reads.
  void add_head() {
    std::optional<size_t> logits;
    const size_t count = known_.size();
    for (size_t i = 0; i < count; ++i) {
      if (known_[i].is_read) continue;
      const bool is_image = known_[i].dims.rank() == 4;
      const size_t flat = is_image && once_in(2)      ? layer("global_average_pool", "", {i})
                          : known_[i].dims.rank() > 2 ? layer("flatten", "", {i})
                                                      : i;
      const size_t head = layer("linear", cat(R"({"features": )", kClasses, "}"), {flat});
      logits = logits ? layer("add", "", {*logits, head}) : head;
    }
    const auto label = writer_.input(
        "label", cat(R"({"dtype": "i32", "label": true, "range": [0, )", kClasses, "]}"));
    const auto output = known_[*logits].value;
    writer_.output("loss",
                   writer_.layer("softmax_cross_entropy", "loss", "", std::vector{output, label}),
                   {}, "");
    writer_.output("logits", output, {}, "");
  }

  std::mt19937 engine_;
  bool has_kinks_;
  // In 16 bits GPUs draw other masks than in f32.
  std::string attention_ = has_kinks_ ? R"({"dropout": 0.1})" : "";
  nn::NetworkWriter writer_{"random"};
  std::vector<Known> known_;
  std::vector<Weighted> weighted_;  // layers with weights
  nn::NetworkValue length_;
};

// Random numbers, in the ranges of the inputs.
class RandomBatch {
 public:
  RandomBatch(uint32_t seed, std::span<const nn::InputSpec> inputs) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (const nn::InputSpec& input : inputs) {
      std::vector<int64_t> sizes(input.sample.span().begin(), input.sample.span().end());
      sizes.insert(sizes.begin(), kBatch);
      const Dims dims(sizes);
      auto& numbers = numbers_.emplace_back(input.range ? 0 : dims.numel());
      auto& integers = integers_.emplace_back(input.range ? dims.numel() : 0);
      for (float& number : numbers) number = uniform(engine);
      for (int32_t& integer : integers) {
        const auto [low, high] = *input.range;
        integer = static_cast<int32_t>(low + engine() % static_cast<uint64_t>(high - low));
      }
      const void* data = input.range ? static_cast<const void*>(integers.data()) : numbers.data();
      tensors_.push_back({input.dtype, dims, data});
    }
  }

  std::span<const HostTensor> tensors() const { return tensors_; }

 private:
  std::vector<std::vector<float>> numbers_;
  std::vector<std::vector<int32_t>> integers_;
  std::vector<HostTensor> tensors_;
};

const Target& target() {
  static const Target kTarget = test::shared_backend_under_test(1)->target();
  return kTarget;
}

// Those that join nodes; the one named is not among those of a deterministic backend.
std::vector<std::string> all_passes() {
  std::vector<std::string> names{"fuse_batch_norm_gradient_sums"};
  for (const auto passes : {forward_passes(), training_passes(target()), inference_passes(),
                            finishing_passes(), gpu_passes(target())})
    for (const Pass& pass : passes)
      if (pass.name != "lower_biases") names.emplace_back(pass.name);
  return names;
}

std::vector<float> read(Backend& backend, const void* data, size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  backend.read(values.data(), data, bytes);
  return values;
}

// What a batch gives: the loss, and every parameter's gradient.
struct Result {
  double loss;
  std::map<std::string, std::vector<float>> gradients;
  bool operator==(const Result&) const = default;
};

// A backend that is not deterministic has more passes.
Result train(const std::shared_ptr<const nn::Model>& model, const std::string& precision,
             const std::vector<std::string>& without, bool deterministic = true) {
  TrainerConfig config;
  config.batch_size = kBatch;
  config.precision = precision;
  config.optimizer.name = "sgd";
  config.optimizer.learning_rate = 0.01;
  config.disabled_pass = without;
  if (precision == "amp-fp16") config.loss_scale.initial = 64;
  const auto backend = test::shared_backend_under_test(1, deterministic);
  Trainer trainer(std::make_shared<ModelInstance>(model, backend), config);
  const RandomBatch batch(7, trainer.training_inputs());
  Result result{trainer.backward(batch.tensors()).loss, {}};
  for (const SegmentTensor& g : trainer.instance().segments().all(Role::kGradient)) {
    std::vector<float>& gradient = result.gradients[std::string(g.variable->name)];
    gradient = read(*backend, g.data, g.bytes());
    for (float& value : gradient) value /= static_cast<float>(trainer.loss_scale());
  }
  return result;
}

std::vector<float> predict(const std::shared_ptr<const nn::Model>& model, Precision precision,
                           const std::vector<std::string>& without) {
  ModelInstance instance(model, test::shared_backend_under_test(1));
  instance.ensure_initialized(0);
  const Predictor predictor(instance, {.precision = precision, .disabled_passes = without});
  PredictorSlot slot(predictor);
  const RandomBatch batch(7, predictor.inputs());
  Program& program = slot.run(batch.tensors());
  return read(*instance.backend(), program.output("logits").data,
              kBatch * kClasses * sizeof(float));
}

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}
double distance(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

// Gradients that vanish, as those of biases in front of a normalisation, are but rounding: the
// distance counts beside a share of the whole gradient, too.
void expect_alike(const Result& a, const Result& b, double bound) {
  EXPECT_NEAR(a.loss, b.loss, bound * b.loss);
  double squares = 0;
  for (const auto& [name, gradient] : b.gradients) squares += norm(gradient) * norm(gradient);
  for (const auto& [name, gradient] : b.gradients)
    EXPECT_LT(distance(a.gradients.at(name), gradient),
              bound * std::max(norm(gradient), 0.1 * std::sqrt(squares)))
        << name;
}

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Calls body(model) for each; what fails names the network. Layers that were refused leave enough.
template <class Body>
void for_networks(bool has_kinks, const Body& body) {
  const int first = from_environment("ASSAY_FIRST_NETWORK", 0);
  const int count = from_environment("ASSAY_NETWORKS", 30);
  constexpr int64_t kFewestLayers = 15;  // on average
  int64_t layers = 0;
  for (int seed = first; seed < first + count; ++seed) {
    const RandomNetwork network(static_cast<uint32_t>(seed), has_kinks);
    const auto model = network.model();
    layers += network.layers();
    SCOPED_TRACE(cat("network ", seed, ": ", model->config_json()));
    body(model);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(layers, kFewestLayers * count);
}

TEST(NetworksAtRandom, PassesChangeOnlyRounding) {
  const auto passes = all_passes();
  for_networks(true, [&](const auto& model) {
    expect_alike(train(model, "fp32", {}), train(model, "fp32", passes), 1e-4);
    const auto joined = predict(model, Precision::kF32, {});
    const auto apart = predict(model, Precision::kF32, passes);
    EXPECT_LT(distance(joined, apart), 1e-5 * norm(apart));
    // Some passes are for f16 alone, which turns choices.
    if (target().kind != Target::Kind::kCuda) return;
    expect_alike(train(model, "amp-fp16", {}, false), train(model, "amp-fp16", passes), 0.2);
  });
}

TEST(NetworksAtRandom, PassesChangeOnlyRoundingInSixteenBits) {
  struct Mode {
    const char* name;
    Precision precision;
    double bound;
  };
  std::vector<Mode> modes{{"amp-bf16", Precision::kAmpBf16, 0.1}};
  if (target().kind == Target::Kind::kCuda)
    modes.push_back({"amp-fp16", Precision::kAmpF16, 0.0125});
  const auto passes = all_passes();
  for_networks(false, [&](const auto& model) {
    const Result exact = train(model, "fp32", passes);
    const auto exact_logits = predict(model, Precision::kF32, passes);
    for (const auto& [name, precision, bound] : modes) {
      SCOPED_TRACE(name);
      expect_alike(train(model, name, {}), exact, bound);
      expect_alike(train(model, name, {}, false), exact, bound);
      expect_alike(train(model, name, passes), exact, bound);
      EXPECT_LT(distance(predict(model, precision, {}), exact_logits),
                bound / 2 * norm(exact_logits));
    }
  });
}

TEST(NetworksAtRandom, SparingMemoryChangesNoBit) {
  for_networks(true, [&](const auto& model) {
    for (const char* precision : {"fp32", "amp-bf16"})
      EXPECT_EQ(train(model, precision, {}), train(model, precision, {"rematerialize"}));
  });
}

}  // namespace
}  // namespace assay::train
