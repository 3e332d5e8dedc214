// ELECTRA for pre-training: a generator that guesses masked words, and a discriminator that tells
// which words are the generator's, on one set of embeddings. Masks, draws and replacements are made
// on the device, anew for every batch. source arXiv:2003.10555. Names of parameters: Hugging Face's
// of the discriminator, and of the generator with its encoder under "generator" instead of
// "electra".
#include <algorithm>
#include <cmath>

#include "models/models.h"
#include "models/text_model.h"
#include "sdk/graph/elementwise.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

using nn::Mode;
using Fn = PointwiseFn;
using Operand = PointwiseOperand;

constexpr float kLossEpsilon = 1e-6f;  // beside the counts of both published losses
constexpr double kMoreSlots = 0.005;   // of a sequence, beyond the fraction: as published
constexpr const char* kTables = "electra.embeddings";

struct ElectraConfig : EncoderConfig {
  ElectraConfig() { vocabulary = 30528; }  // BERT's, and empty rows up to a multiple of 8

  int64_t generator_hidden = 256;
  int64_t generator_layers = 12;
  int64_t generator_heads = 4;
  int64_t generator_inner = 1024;
  double generator_weight = 1;
  double discriminator_weight = 50;
  double masked_fraction = 0.15;
  double shown = 0.85;
  int64_t cls = 101, sep = 102, mask = 103;

  void fields(ConfigFields& f) {
    EncoderConfig::fields(f);
    f("generator_hidden", generator_hidden, "numbers of a token; a multiple of generator_heads")
        .in({1, 16384, true});
    f("generator_layers", generator_layers, "blocks of the generator").in({1, 1024, true});
    f("generator_heads", generator_heads, "of the generator's attention").in({1, 1024, true});
    f("generator_inner", generator_inner, "width of its feed-forward networks")
        .in({1, 1 << 20, true});
    f("generator_weight", generator_weight, "of the loss of masked words").in({0, 1e6, true});
    f("discriminator_weight", discriminator_weight, "of the loss of replaced words")
        .in({0, 1e6, true});
    f("masked_fraction", masked_fraction, "of the tokens of a sequence that are drawn")
        .in({0, 1, true, false});
    f("shown", shown, "rate of drawn tokens that are shown as a mask").in({0, 1, true});
    f("cls", cls, "number of the piece [CLS]").in({0, 1 << 24});
    f("sep", sep, "number of the piece [SEP]").in({0, 1 << 24});
    f("mask", mask, "number of the piece [MASK]").in({0, 1 << 24});
  }
};

void check_electra(std::string_view model, const ElectraConfig& config) {
  check(model, config);
  expect(config.generator_hidden % config.generator_heads == 0, {model, "generator_hidden"},
         config.generator_hidden, "a multiple of generator_heads (", config.generator_heads, ")");
  for (const auto& [key, number] :
       {std::pair{"cls", config.cls}, {"sep", config.sep}, {"mask", config.mask}}) {
    expect(number < config.vocabulary, {model, key}, number, "a row of the word table (",
           config.vocabulary, " in vocabulary)");
  }
}

nn::TrainingOptions with_slots(const ElectraConfig& config, nn::TrainingOptions options) {
  if (!options.prediction_slots) {
    const int64_t length = TextModel::length_of(config, options);
    const double slots = std::floor((config.masked_fraction + kMoreSlots) * double(length));
    options.prediction_slots = std::max<int64_t>(1, std::min(length, static_cast<int64_t>(slots)));
  }
  return options;
}

// What discriminators are measured by, as 0 or 1 for each token.
struct Detections {
  ValueId right, found, claimed, replaced;  // [] f32: sums over the tokens of a batch
};

// logits [T], replaced [T] i32: 1, 0, or -1 at padding. A logit above 0 claims a replacement.
Detections detections(nn::Builder& b, ValueId logits, ValueId replaced) {
  PointwiseCode code;
  const Operand logit = Operand::input(0), target = Operand::input(1);
  const Operand real = code.append(Fn::kSelect, {target, -1, 0, 1});
  const Operand is_replaced = code.append(Fn::kMax, {target, 0});
  const Operand positive = code.append(Fn::kSelect, {logit, 0, 0, 1});
  const Operand claimed = code.append(Fn::kMul, {positive, real});
  const Operand found = code.append(Fn::kMul, {claimed, is_replaced});
  const Operand difference = code.append(Fn::kSub, {claimed, is_replaced});
  const Operand wrong = code.append(Fn::kMul, {difference, difference});
  const Operand right = code.append(Fn::kSub, {real, wrong});
  const auto total = [&](const PointwiseCode& each, const std::vector<ValueId>& inputs) {
    return b.graph().emit1(SumTo{}, {b.graph().emit(Pointwise{each, DType::kF32}, inputs)[0]});
  };
  const auto total_of = [&](Operand result) {
    PointwiseCode each = code;
    each.keep_only(result);
    return total(each, {logits, replaced});
  };
  const PointwiseCode only_replaced(Fn::kMax, {Operand::input(0), 0});
  return {total_of(right), total_of(found), total_of(claimed), total(only_replaced, {replaced})};
}

class ElectraPretraining : public TextModel {
 public:
  ElectraPretraining(const ElectraConfig& config, const nn::TrainingOptions& options)
      : TextModel(config, with_slots(config, options)), config_(config) {}

  std::string architecture() const override { return "electra_base_pretraining"; }
  std::string config_json() const override { return to_json(config_); }

  std::vector<nn::InputSpec> inputs(Mode mode) const override { return token_inputs(mode); }

  // Predictions are the discriminator's, of the tokens as they are given.
  nn::Outputs forward(nn::Builder& b) const override {
    const std::vector<ValueId> given = b.inputs(inputs(b.mode()));
    const Batch batch{given[0], given[1], given[2], sequences(b, given[2])};
    if (b.mode() == Mode::kPredict)
      return {{"discriminator_logits", discriminator_logits(b, batch, batch.ids)}};
    const Masked masked = mask(b, batch);
    const ValueId guesses = generator_logits(b, batch, masked);
    const auto replaced = replace(b, batch, masked, guesses);
    const ValueId found = discriminator_logits(b, batch, replaced.ids);
    return losses(b, batch, masked, guesses, replaced.replaced, found);
  }

 private:
  struct Batch {
    ValueId ids, types, length;  // [N,L], [N,L], [N]
    nn::Sequences all;
  };
  struct Masked {
    ValueId ids, positions, labels;  // [N,L], [N,P], [N,P]
  };
  struct Replaced {
    ValueId ids, replaced;  // [N,L]
  };

  std::shared_ptr<const nn::Model> with(const nn::TrainingOptions& options) const override {
    return std::make_shared<ElectraPretraining>(config_, options);
  }

  Masked mask(nn::Builder& b, const Batch& batch) const {
    const auto scope = b.scope("generator");
    const auto out = b.graph().emit(MaskTokens{.slots = slots(),
                                               .fraction = config_.masked_fraction,
                                               .shown = static_cast<float>(config_.shown),
                                               .cls = static_cast<int32_t>(config_.cls),
                                               .sep = static_cast<int32_t>(config_.sep),
                                               .mask = static_cast<int32_t>(config_.mask),
                                               .seed = b.seed(),
                                               .stream = b.stream("mask_tokens")},
                                    {batch.ids, batch.length, b.random_step()});
    return {out[0], out[1], out[2]};
  }

  // Of the slots -> [N*P,V].
  ValueId generator_logits(nn::Builder& b, const Batch& batch, const Masked& masked) const {
    ValueId x = embedded(b, kTables, masked.ids, batch.types);
    {
      const auto generator = b.scope("generator");
      x = nn::bert_linear(b, "embeddings_project", x, config_.generator_hidden);
      const auto scope = b.scope("encoder");
      nn::TransformerConfig config = blocks();
      config.layers = config_.generator_layers;
      config.heads = config_.generator_heads;
      config.inner = config_.generator_inner;
      x = encoded(b, x, batch.all, config, [&](const nn::Sequences& sequences) {
        return b.graph().emit1(OffsetIndex{}, {masked.positions, sequences.start});
      });
    }
    return vocabulary_logits(b, x,
                             {"generator_predictions.dense", "generator_predictions.LayerNorm",
                              "generator_lm_head.bias", kTables});
  }

  // With draws of what the generator thinks likely.
  Replaced replace(nn::Builder& b, const Batch& batch, const Masked& masked,
                   ValueId guesses) const {
    const auto scope = b.scope("generator");
    Graph& g = b.graph();
    const ValueId samples =
        g.emit1(SampleTokens{b.seed(), b.stream("sample_tokens")}, {guesses, b.random_step()});
    const auto out = g.emit(ReplaceTokens{},
                            {batch.ids, batch.length, masked.positions, masked.labels, samples});
    return {out[0], out[1]};
  }

  // Of all tokens, positive for those that seem replaced -> [N,L].
  ValueId discriminator_logits(nn::Builder& b, const Batch& batch, ValueId ids) const {
    ValueId x = embedded(b, kTables, ids, batch.types);
    {
      const auto electra = b.scope("electra");
      const auto scope = b.scope("encoder");
      x = encoded(b, x, batch.all, blocks());
    }
    const auto scope = b.scope("discriminator_predictions");
    x = nn::activation(b, config_.activation(), nn::bert_linear(b, "dense", x, config_.hidden));
    x = nn::bert_linear(b, "dense_prediction", x, 1);
    return b.graph().emit1(Reshape{{b.batch(), length()}}, {x});
  }

  // guesses [N*P,V]; replaced and found [N,L].
  nn::Outputs losses(nn::Builder& b, const Batch& batch, const Masked& masked, ValueId guesses,
                     ValueId replaced, ValueId found) const {
    Graph& g = b.graph();
    nn::Outputs outputs{{"generator_logits", guesses}, {"discriminator_logits", found}};
    const auto add_mean = [&](std::string_view name, ValueId value, ValueId weight = {}) {
      outputs.push_back({std::string(name), value, nn::Reduction::kMean, weight});
    };
    const ValueId labels = flat(b, masked.labels), targets = flat(b, replaced);
    found = flat(b, found);
    const auto mlm = g.emit(
        SoftmaxCrossEntropy{.reduction = assay::Reduction::kCountedMean, .epsilon = kLossEpsilon},
        {guesses, labels});
    const auto rtd = g.emit(SigmoidCrossEntropy{kLossEpsilon}, {found, targets});
    PointwiseCode sum(Fn::kMul,
                      {Operand::input(1), static_cast<float>(config_.discriminator_weight)});
    sum.append(Fn::kMulAdd,
               {Operand::input(0), static_cast<float>(config_.generator_weight), Operand::step(0)});
    const ValueId loss = g.emit1(Pointwise{sum, {}}, {mlm[0], rtd[0]});
    if (b.training()) {
      add_mean(nn::kLoss, loss);
      add_mean("mlm_loss", mlm[0]);
      add_mean("rtd_loss", rtd[0]);
      return outputs;
    }
    // The mean over batches of what training minimises in each, and the means over all that counts.
    const ValueId rows = g.emit1(
        SumTo{}, {g.emit1(Pointwise{{Fn::kSelect, {Operand::input(0), 0, 0, 1}}, DType::kF32},
                          {batch.length})});
    const PointwiseCode product(Fn::kMul, {Operand::input(0), Operand::input(1)});
    const auto times = [&](ValueId mean, ValueId count) {
      return g.emit1(Pointwise{product, {}}, {mean, count});
    };
    const ValueId mlm_sum =
        g.emit(SoftmaxCrossEntropy{.reduction = assay::Reduction::kSum}, {guesses, labels})[0];
    const ValueId counted = g.emit1(CountTargets{}, {labels});
    const Detections of = detections(b, found, targets);
    add_mean(nn::kLoss, times(loss, rows), rows);
    add_mean("mlm_loss", mlm_sum, counted);
    add_mean("rtd_loss", times(rtd[0], rtd[1]), rtd[1]);
    add_mean("masked_accuracy", g.emit1(TopKCorrect{1}, {guesses, labels}), counted);
    add_mean("replaced_accuracy", of.right, rtd[1]);
    add_mean("replaced_precision", of.found, of.claimed);
    add_mean("replaced_recall", of.found, of.replaced);
    return outputs;
  }

  static ValueId flat(nn::Builder& b, ValueId x) {
    return b.graph().emit1(Reshape{{b.dims(x).numel()}}, {x});
  }

  ElectraConfig config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_electra_base_pretraining(std::string_view config_json) {
  ElectraConfig config;
  parse_json(config_json, config, "electra_base_pretraining configuration");
  check_config("electra_base_pretraining", "", config);
  check_electra("electra_base_pretraining", config);
  return std::make_unique<ElectraPretraining>(config, nn::TrainingOptions{});
}

}  // namespace assay::models
