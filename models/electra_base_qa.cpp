// ELECTRA's discriminator with its joint head for questions of SQuAD: where the answer starts;
// where it ends if it starts there; and, of SQuAD 2.0, whether there is one. source
// arXiv:2003.10555; the heads are XLNet's, arXiv:1906.08237. Names of parameters: Hugging Face's of
// the encoder, the published scripts' of the heads.
#include <algorithm>
#include <array>

#include "models/answer_spans.h"
#include "models/models.h"
#include "models/text_model.h"
#include "sdk/graph/elementwise.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

using nn::Mode;

constexpr float kAnswerWeight = 0.5f;  // of the loss of whether there is an answer
constexpr float kNoCount = 1e-30f;     // nothing beside a count: a mean over no rows is 0

struct ElectraQaConfig : EncoderConfig {
  std::string version = "1.1";
  int64_t beam = 5;

  void fields(ConfigFields& f) {
    EncoderConfig::fields(f);
    f("version", version, "of SQuAD: 2.0 has questions without an answer, and a head for them")
        .one_of({"1.1", "2.0"});
    f("beam", beam, "starts that a prediction follows up, and ends of each").in({1, 512, true});
  }
};

// W [a; b] + bias as Wa a + Wb b + bias: of many pairs with one a, Wa a is computed once.
class PairedDense {
 public:
  // Parameters weight [features, 2 features] and bias [features], in the scope `name`.
  PairedDense(nn::Builder& b, std::string_view name, int64_t features) : b_(b) {
    const auto scope = b.scope(name);
    const Dims dims{features, 2 * features};
    const ValueId weight = b.parameter("weight", dims, nn::bert_normal(dims));
    for (const int64_t half : {0, 1}) {
      weights_[static_cast<size_t>(half)] = b.graph().emit1(
          Slice{.begin = {0, half * features}, .dims = {features, features}}, {weight});
    }
    bias_ = b.parameter("bias", {features}, nn::constant(0), VariableKind::kBias);
  }
  // [N,features] -> [N,features]. The bias is the first's.
  ValueId of_first(ValueId a) const {
    return b_.graph().emit1(Matmul{.transpose_b = true, .has_bias = true}, {a, weights_[0], bias_});
  }
  ValueId of_second(ValueId a) const {
    return b_.graph().emit1(Matmul{.transpose_b = true}, {a, weights_[1]});
  }

 private:
  nn::Builder& b_;
  std::array<ValueId, 2> weights_;
  ValueId bias_;
};

class ElectraQa : public TextModel {
 public:
  ElectraQa(const ElectraQaConfig& config, const nn::TrainingOptions& options)
      : TextModel(config, options), config_(config) {}

  std::string architecture() const override { return "electra_base_qa"; }
  std::string config_json() const override { return to_json(config_); }

  std::vector<nn::InputSpec> inputs(Mode mode) const override {
    std::vector<nn::InputSpec> inputs = token_inputs(mode);
    const auto none = mode == Mode::kEval ? std::optional<int64_t>(-1) : std::nullopt;
    add_label(inputs, mode, "start_positions", {}, length(), none);
    add_label(inputs, mode, "end_positions", {}, length(), none);
    if (may_lack_answers()) add_label(inputs, mode, "is_impossible", {}, 2, none);
    return inputs;
  }

  nn::Outputs forward(nn::Builder& b) const override {
    const std::vector<ValueId> given = b.inputs(inputs(b.mode()));
    Batch batch{.types = given[1], .length = given[2], .all = sequences(b, given[2])};
    batch.x = embedded(b, "electra.embeddings", given[0], given[1]);
    {
      const auto electra = b.scope("electra");
      const auto scope = b.scope("encoder");
      batch.x = encoded(b, batch.x, batch.all, blocks());
    }
    if (b.mode() == Mode::kPredict) return candidates(b, batch);
    batch.labels.assign(given.begin() + 3, given.end());
    return losses(b, batch);
  }

 private:
  struct Batch {
    ValueId types, length;  // [N,L], [N]
    nn::Sequences all;
    ValueId x;                    // [N*L,H], of the encoder
    std::vector<ValueId> labels;  // [N]: start, end, whether there is none
  };

  std::shared_ptr<const nn::Model> with(const nn::TrainingOptions& options) const override {
    return std::make_shared<ElectraQa>(config_, options);
  }
  bool may_lack_answers() const { return config_.version == "2.0"; }

  // A score for each token, rows [N*L,H] -> [N,1,L].
  ValueId scores(nn::Builder& b, std::string_view dense, ValueId rows) const {
    return b.graph().emit1(Reshape{{b.batch(), 1, length()}}, {nn::bert_linear(b, dense, rows, 1)});
  }

  // [N,L], only where an answer can be.
  ValueId start_scores(nn::Builder& b, const Batch& batch) const {
    const auto scope = b.scope("start_logits");
    const ValueId all = scores(b, "start_logit_pooler_dense", batch.x);
    return b.graph().emit1(Reshape{{b.batch(), length()}},
                           {only_paragraph(b, all, batch.types, batch.length)});
  }

  // Rows of x at `places` [N,k] of the sequences -> [N*k,H].
  ValueId states(nn::Builder& b, const Batch& batch, ValueId places) const {
    return nn::rows_of(b, batch.x, b.graph().emit1(OffsetIndex{}, {places, batch.all.start}));
  }

  // Of the ends of k starts, places [N,k], only where an answer can be -> [N*k,L].
  ValueId end_scores(nn::Builder& b, const Batch& batch, ValueId places, int64_t k) const {
    const auto scope = b.shared("end_logits");  // all starts go through the same layers
    Graph& g = b.graph();
    const int64_t n = b.batch(), hidden = config_.hidden;
    const PairedDense dense(b, "end_logit_pooler_dense_0", hidden);
    const ValueId tokens = g.emit1(Reshape{{n, length(), hidden}}, {dense.of_first(batch.x)});
    const ValueId starts =
        g.emit1(Reshape{{n, k, hidden}}, {dense.of_second(states(b, batch, places))});
    std::vector<ValueId> of_starts;
    for (int64_t i = 0; i < k; ++i) {
      const ValueId start = g.emit1(Slice{.begin = {0, i, 0}, .dims = {n, 1, hidden}}, {starts});
      ValueId z = nn::activation(b, ActivationKind::kTanh, add(g, tokens, start));
      z = nn::layer_norm(b, "end_logit_pooler_LayerNorm", z, epsilon());
      z = g.emit1(Reshape{{n * length(), hidden}}, {z});
      of_starts.push_back(scores(b, "end_logit_pooler_dense_1", z));
    }
    const ValueId all = k == 1 ? of_starts[0] : g.emit(Concat{1}, of_starts)[0];
    return g.emit1(Reshape{{n * k, length()}}, {only_paragraph(b, all, batch.types, batch.length)});
  }

  // From the state [N,H] of a start: positive where there is no answer -> [N].
  ValueId class_logit(nn::Builder& b, const Batch& batch, ValueId start) const {
    const auto scope = b.scope("answer_class");
    Graph& g = b.graph();
    const PairedDense dense(b, "pooler_answer_class_dense_0", config_.hidden);
    const ValueId first = nn::rows_of(b, batch.x, batch.all.start);  // [CLS]
    const ValueId z = nn::activation(b, ActivationKind::kTanh,
                                     add(g, dense.of_first(start), dense.of_second(first)));
    const ValueId logit = nn::linear(b, "pooler_answer_class_dense_1", z, 1,
                                     {.bias = false, .init = nn::bert_normal});
    return g.emit1(Reshape{{b.batch()}}, {logit});
  }

  // Of the starts that the labels name.
  nn::Outputs losses(nn::Builder& b, const Batch& batch) const {
    Graph& g = b.graph();
    const ValueId start_labels = batch.labels[0];
    const ValueId start = start_scores(b, batch);
    const ValueId end = end_scores(b, batch, start_labels, 1);
    const ValueId rows = b.training() ? ValueId{} : g.emit1(CountTargets{}, {start_labels});
    nn::Outputs outputs{{"start_logits", start}, {"end_logits", end}};
    const auto add_mean = [&](std::string_view name, ValueId value, ValueId weight) {
      outputs.push_back({std::string(name), value, nn::Reduction::kMean, weight});
    };
    const ValueId span = span_loss(b, start, start_labels, end, batch.labels[1]);
    if (!may_lack_answers()) {
      add_mean(nn::kLoss, span, rows);
      return outputs;
    }
    const ValueId logit = class_logit(b, batch, states(b, batch, start_labels));
    const auto answer = g.emit(SigmoidCrossEntropy{kNoCount}, {logit, batch.labels[2]});
    // In evaluation the sum over the rows that count, as the others.
    const ValueId known = b.training() ? g.emit1(Fill{{}, 1}, {}) : answer[1];
    const auto x = [](int i) { return PointwiseOperand::input(i); };
    PointwiseCode code(PointwiseFn::kMul, {x(1), x(2)});
    code.append(PointwiseFn::kMulAdd, {PointwiseOperand::step(0), kAnswerWeight, x(0)});
    add_mean(nn::kLoss, g.emit1(Pointwise{code, {}}, {span, answer[0], known}), rows);
    add_mean("span_loss", span, rows);
    outputs.push_back({"class_logit", logit});
    return outputs;
  }

  // The best starts and, for each, the best ends: candidate beam * i + j is start i with its end j.
  nn::Outputs candidates(nn::Builder& b, const Batch& batch) const {
    Graph& g = b.graph();
    const int64_t n = b.batch(), k = std::min(config_.beam, length());
    const ValueId start = start_scores(b, batch);
    const auto best_of = [&](ValueId scores) {
      return g.emit(TopK{k}, {g.emit1(Softmax{.log = true}, {scores})});
    };
    const auto starts = best_of(start);
    const auto ends = best_of(end_scores(b, batch, starts[1], k));
    const auto of_window = [&](ValueId found) { return g.emit1(Reshape{{n, k * k}}, {found}); };
    nn::Outputs outputs{{"start_index", starts[1]},
                        {"start_log_prob", starts[0]},
                        {"end_index", of_window(ends[1])},
                        {"end_log_prob", of_window(ends[0])}};
    if (may_lack_answers())
      outputs.push_back({"class_logit", class_logit(b, batch, expected_start(b, batch, start))});
    return outputs;
  }

  // The mean of the states of all tokens, weighted by how likely the answer starts there -> [N,H].
  ValueId expected_start(nn::Builder& b, const Batch& batch, ValueId start) const {
    Graph& g = b.graph();
    const int64_t n = b.batch(), hidden = config_.hidden;
    const ValueId weights = g.emit1(Reshape{{n, length(), 1}}, {g.emit1(Softmax{}, {start})});
    const ValueId x = g.emit1(Reshape{{n, length(), hidden}}, {batch.x});
    const PointwiseCode product(PointwiseFn::kMul,
                                {PointwiseOperand::input(0), PointwiseOperand::input(1)});
    const ValueId weighted = g.emit1(Pointwise{product, DType::kF32}, {x, weights});
    return g.emit1(Reshape{{n, hidden}}, {g.emit1(SumTo{{n, 1, hidden}}, {weighted})});
  }

  ElectraQaConfig config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_electra_base_qa(std::string_view config_json) {
  ElectraQaConfig config;
  parse_json(config_json, config, "electra_base_qa configuration");
  check_config("electra_base_qa", "", config);
  check("electra_base_qa", config);
  return std::make_unique<ElectraQa>(config, nn::TrainingOptions{});
}

}  // namespace assay::models
