#include <algorithm>
#include <array>

#include "models/image_config.h"
#include "models/model_config.pb.h"
#include "models/models.h"
#include "sdk/base/expect.h"
#include "sdk/base/proto_json.h"
#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

ActivationKind parse_activation(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, ActivationKind>, 6> kKinds{
      {{"relu", ActivationKind::kRelu},
       {"elu", ActivationKind::kElu},
       {"tanh", ActivationKind::kTanh},
       {"sigmoid", ActivationKind::kSigmoid},
       {"gelu", ActivationKind::kGelu},
       {"swish", ActivationKind::kSwish}}};
  for (const auto& [known, kind] : kKinds) {
    if (known == name) return kind;
  }
  fail(Code::kInternal, cat("cnn: activation ", name, " passed its check"));
}

CnnConfig with_defaults(CnnConfig config) {
  if (config.image_size() == 0) set_image(config, {28, 28, 1});
  if (!config.has_classes()) config.set_classes(10);
  if (config.conv_size() == 0) config.add_conv(32), config.add_conv(64);
  if (!config.has_kernel()) config.set_kernel(5);
  if (!config.has_batch_norm()) config.set_batch_norm(true);
  if (config.hidden_size() == 0) config.add_hidden(256);
  if (!config.has_activation()) config.set_activation("relu");
  return config;
}

void check(const CnnConfig& config) {
  expect(config.kernel() > 0 && config.kernel() < 1024 && config.kernel() % 2 == 1,
         {"cnn", "kernel"}, config.kernel(), "an odd number in [1, 1023]");
  expect_number({"cnn", "dropout"}, config.dropout(), {0, 1});
  expect_one_of({"cnn", "activation"}, config.activation(),
                {"relu", "elu", "tanh", "sigmoid", "gelu", "swish"});
  for (const int64_t channels : config.conv()) {
    expect(channels > 0 && channels <= 65536, {"cnn", "conv"}, channels, "sizes in [1, 65536]");
  }
  for (const int64_t size : config.hidden()) {
    const bool none = size == 0 && config.hidden_size() == 1;
    expect(none || (size > 0 && size <= 1048576), {"cnn", "hidden"}, size,
           "sizes in [1, 1048576], or [0] for none");
  }
  const int64_t shrink = int64_t{1} << std::min(config.conv_size(), 20);
  const int64_t side = std::min(config.image(0), config.image(1));
  expect(side >= shrink, {"cnn", "image"}, cat(side, " pixels at its shorter side"), "at least ",
         shrink, ", which ", config.conv_size(), " blocks halve to 1");
}

class Cnn : public nn::ImageNetwork {
 public:
  explicit Cnn(const CnnConfig& config) : config_(config) {
    check_classifier("cnn", config.image(), config.classes());
    check(config_);
    activation_ = parse_activation(config_.activation());
  }

  std::string architecture() const override { return "cnn"; }
  std::string config_json() const override { return to_json(config_); }
  Dims image() const override { return image_dims(config_.image()); }
  int64_t classes() const override { return config_.classes(); }

  ValueId logits(nn::Builder& b, ValueId x) const override {
    for (int i = 0; i < config_.conv_size(); ++i) x = conv_block(b, i, x);
    x = nn::flatten(b, x);
    for (int i = 0; i < config_.hidden_size(); ++i) {
      if (config_.hidden(i) > 0) x = hidden_layer(b, i, x);
    }
    return nn::linear(b, "output", x, config_.classes());
  }

 private:
  ValueId conv_block(nn::Builder& b, int i, ValueId x) const {
    const auto scope = b.scope(cat("block", i + 1));
    const int64_t pad = config_.kernel() / 2;
    x = nn::conv2d(b, "conv", x,
                   {.channels = config_.conv(i),
                    .kernel = {config_.kernel(), config_.kernel()},
                    .padding = {pad, pad},
                    .bias = !config_.batch_norm()});
    if (config_.batch_norm()) x = nn::batch_norm(b, "bn", x);
    return nn::max_pool(b, nn::activation(b, activation_, x), 2, 2);
  }

  ValueId hidden_layer(nn::Builder& b, int i, ValueId x) const {
    const auto scope = b.scope(cat("hidden", i + 1));
    x = nn::linear(b, "linear", x, config_.hidden(i), {.bias = !config_.batch_norm()});
    if (config_.batch_norm()) x = nn::batch_norm(b, "bn", x);
    return nn::dropout(b, "dropout", nn::activation(b, activation_, x),
                       static_cast<float>(config_.dropout()));
  }

  CnnConfig config_;
  ActivationKind activation_ = ActivationKind::kRelu;
};

}  // namespace

std::unique_ptr<nn::Model> create_cnn(std::string_view config_json) {
  CnnConfig config;
  parse_json(config_json, config, "cnn configuration", {"image", "conv", "hidden"});
  return std::make_unique<nn::ImageClassifier>(std::make_shared<Cnn>(with_defaults(config)));
}

}  // namespace assay::models
