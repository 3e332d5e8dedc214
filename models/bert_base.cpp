// BERT: an encoder with the heads that it is pre-trained with, or with the one that finds answers.
// Names of parameters as Hugging Face's transformers has them.
#include "models/answer_spans.h"
#include "models/models.h"
#include "models/text_model.h"
#include "sdk/graph/elementwise.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

using nn::Mode;

constexpr float kMaskedLossEpsilon = 1e-5f;  // of the published loss
constexpr const char* kTables = "bert.embeddings";

struct BertConfig : EncoderConfig {
  std::string head = "pretraining";

  void fields(ConfigFields& f) {
    EncoderConfig::fields(f);
    f("head", head, "masked words and next sentences, or start and end of an answer")
        .one_of({"pretraining", "span"});
  }
};

// Losses are means in training and sums in evaluation.
ValueId cross_entropy(nn::Builder& b, ValueId logits, ValueId labels) {
  const auto reduction = b.training() ? assay::Reduction::kMean : assay::Reduction::kSum;
  return b.graph().emit(SoftmaxCrossEntropy{.reduction = reduction}, {logits, labels})[0];
}

class Bert : public TextModel {
 public:
  Bert(const BertConfig& config, const nn::TrainingOptions& options)
      : TextModel(config, options), config_(config) {}

  std::string architecture() const override { return "bert_base"; }
  std::string config_json() const override { return to_json(config_); }

  std::vector<nn::InputSpec> inputs(Mode mode) const override {
    std::vector<nn::InputSpec> inputs = token_inputs(mode);
    const auto none = mode == Mode::kEval ? std::optional<int64_t>(-1) : std::nullopt;
    if (is_span()) {
      add_label(inputs, mode, "start_positions", {}, length(), none);
      add_label(inputs, mode, "end_positions", {}, length(), none);
      return inputs;
    }
    inputs.push_back({.name = "masked_lm_positions",
                      .dtype = DType::kI32,
                      .sample = {slots()},
                      .range = nn::IndexRange{0, length()}});
    add_label(inputs, mode, "masked_lm_ids", {slots()}, encoder().vocabulary, -1);
    add_label(inputs, mode, "next_sentence_labels", {}, 2, none);
    return inputs;
  }

  nn::Outputs forward(nn::Builder& b) const override {
    const std::vector<ValueId> batch = b.inputs(inputs(b.mode()));
    const nn::Sequences all = sequences(b, batch[2]);
    Rows wanted;
    if (!is_span())
      wanted = [&](const nn::Sequences& sequences) {
        return masked_and_first(b, batch[3], sequences.start);
      };
    ValueId x = embedded(b, kTables, batch[0], batch[1]);
    {
      const auto bert = b.scope("bert");
      const auto scope = b.scope("encoder");
      x = encoded(b, x, all, blocks(), wanted);
    }
    return is_span() ? span(b, x, batch) : pretraining(b, x, batch);
  }

 private:
  std::shared_ptr<const nn::Model> with(const nn::TrainingOptions& options) const override {
    return std::make_shared<Bert>(config_, options);
  }
  bool is_span() const { return config_.head == "span"; }

  // What pre-training reads: the rows of `positions` [N,P], then those of the first tokens
  // -> [N*P+N].
  static ValueId masked_and_first(nn::Builder& b, ValueId positions, ValueId start) {
    Graph& g = b.graph();
    return g.emit1(Concat{0}, {g.emit1(OffsetIndex{}, {positions, start}), start});
  }

  // x [N*P,H] -> [N*P,V]
  ValueId masked_logits(nn::Builder& b, ValueId x) const {
    const auto cls = b.scope("cls");
    const auto scope = b.scope("predictions");
    return vocabulary_logits(b, x, {"transform.dense", "transform.LayerNorm", "bias", kTables});
  }

  // Of first tokens [N,H] -> [N,2].
  ValueId next_sentence_logits(nn::Builder& b, ValueId x) const {
    ValueId pooled;
    {
      const auto bert = b.scope("bert");
      const auto scope = b.scope("pooler");
      pooled = nn::activation(b, ActivationKind::kTanh,
                              nn::bert_linear(b, "dense", x, encoder().hidden));
    }
    const auto scope = b.scope("cls");
    return nn::bert_linear(b, "seq_relationship", pooled, 2);
  }

  // x: masked_and_first of the encoder's rows.
  nn::Outputs pretraining(nn::Builder& b, ValueId x, const std::vector<ValueId>& batch) const {
    Graph& g = b.graph();
    const int64_t n = b.batch(), hidden = encoder().hidden;
    const auto part = [&](int64_t begin, int64_t rows) {
      return g.emit1(Slice{.begin = {begin, 0}, .dims = {rows, hidden}}, {x});
    };
    const ValueId masked = masked_logits(b, part(0, n * slots()));
    const ValueId next = next_sentence_logits(b, part(n * slots(), n));
    nn::Outputs outputs{{"masked_lm_logits", masked}, {"next_sentence_logits", next}};
    if (b.mode() == Mode::kPredict) return outputs;
    const auto add_mean = [&](const char* name, ValueId value, ValueId weight = {}) {
      outputs.push_back({name, value, nn::Reduction::kMean, weight});
    };
    const ValueId words = g.emit1(Reshape{{b.batch() * slots()}}, {batch[4]});
    const ValueId masked_mean =
        g.emit(SoftmaxCrossEntropy{.reduction = assay::Reduction::kCountedMean,
                                   .epsilon = kMaskedLossEpsilon},
               {masked, words})[0];
    const ValueId next_loss = cross_entropy(b, next, batch[5]);
    if (b.training()) {
      add_mean("loss", add(g, masked_mean, next_loss));
      add_mean("mlm_loss", masked_mean);
      add_mean("nsp_loss", next_loss);
      return outputs;
    }
    const ValueId counted = g.emit1(CountTargets{}, {words});
    const ValueId rows = g.emit1(CountTargets{}, {batch[5]});
    // The mean over batches of what training minimises in each.
    PointwiseCode code(PointwiseFn::kMul, {PointwiseOperand::input(0), PointwiseOperand::input(2)});
    code.append(PointwiseFn::kAdd, {PointwiseOperand::step(0), PointwiseOperand::input(1)});
    add_mean("loss", g.emit1(Pointwise{code, {}}, {masked_mean, next_loss, rows}), rows);
    add_mean("mlm_loss", cross_entropy(b, masked, words), counted);
    add_mean("nsp_loss", next_loss, rows);
    add_mean("masked_accuracy", g.emit1(TopKCorrect{1}, {masked, words}), counted);
    add_mean("next_sentence_accuracy", g.emit1(TopKCorrect{1}, {next, batch[5]}), rows);
    return outputs;
  }

  // Start and end are scored apart, at every token. Padding takes no part, unlike in the published
  // code, where a batch's padding changes the loss.
  nn::Outputs span(nn::Builder& b, ValueId x, const std::vector<ValueId>& batch) const {
    Graph& g = b.graph();
    const int64_t n = b.batch();
    const ValueId both =
        g.emit1(Reshape{{n, length(), 2}}, {nn::bert_linear(b, "qa_outputs", x, 2)});
    const auto scores = [&](int64_t i) {
      const ValueId of_all = g.emit1(Slice{.begin = {0, 0, i}, .dims = {n, length(), 1}}, {both});
      return only_tokens(b, g.emit1(Reshape{{n, length()}}, {of_all}), batch[2]);
    };
    const ValueId start = scores(0), end = scores(1);
    nn::Outputs outputs{{"start_logits", start}, {"end_logits", end}};
    if (b.mode() == Mode::kPredict) return outputs;
    const ValueId loss = span_loss(b, start, batch[3], end, batch[4]);
    const ValueId rows = b.training() ? ValueId{} : g.emit1(CountTargets{}, {batch[3]});
    outputs.push_back({std::string(nn::kLoss), loss, nn::Reduction::kMean, rows});
    return outputs;
  }

  BertConfig config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_bert_base(std::string_view config_json) {
  BertConfig config;
  parse_json(config_json, config, "bert_base configuration");
  check_config("bert_base", "", config);
  check("bert_base", config);
  return std::make_unique<Bert>(config, nn::TrainingOptions{});
}

}  // namespace assay::models
