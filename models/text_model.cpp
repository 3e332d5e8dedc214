// The inputs of a text model and the shapes that follow from the lengths it trains with.
#include "models/text_model.h"

#include <algorithm>

#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

constexpr int64_t kTypes = 2;
constexpr int64_t kSequenceLength = 128;  // of a batch, where the trainer does not say another
constexpr int64_t kPredictionSlots = 20;

nn::InputSpec integers(std::string name, Dims sample, nn::IndexRange range) {
  return {.name = std::move(name), .dtype = DType::kI32, .sample = sample, .range = range};
}

ValueId word_table(nn::Builder& b, std::string_view tables, const EncoderConfig& config) {
  const auto scope = b.shared(cat(tables, ".word_embeddings"));
  const Dims dims{config.vocabulary, config.hidden};
  return b.parameter("weight", dims, nn::bert_normal(dims), VariableKind::kEmbedding);
}

}  // namespace

void EncoderConfig::fields(ConfigFields& f) {
  f("vocabulary", vocabulary, "rows of the word table").in({2, 1 << 24, true});
  f("hidden", hidden, "numbers of a token; a multiple of heads").in({1, 16384, true});
  f("layers", layers, "blocks of the encoder").in({1, 1024, true});
  f("heads", heads, "of the attention").in({1, 1024, true});
  f("inner", inner, "width of the feed-forward networks").in({1, 1 << 20, true});
  f("positions", positions, "rows of the position table: the longest sequence")
      .in({1, 1 << 16, true});
  f("dropout", dropout, "rate behind the embeddings and in the blocks").in({0, 1});
  f("attention_dropout", attention_dropout, "rate of the weights of the attention").in({0, 1});
  f("epsilon", epsilon, "of layer norms").in({0, 1, false, false});
  f("gelu", gelu, "its exact form, or the approximation by tanh of Google's code")
      .one_of({"erf", "tanh"});
}

ActivationKind EncoderConfig::activation() const {
  return gelu == "tanh" ? ActivationKind::kGeluTanh : ActivationKind::kGelu;
}

void check(std::string_view model, const EncoderConfig& config) {
  expect(config.hidden % config.heads == 0, {model, "hidden"}, config.hidden,
         "a multiple of heads (", config.heads, ")");
}

TextModel::TextModel(const EncoderConfig& encoder, const nn::TrainingOptions& options)
    : encoder_(encoder),
      length_(length_of(encoder, options)),
      slots_(options.prediction_slots.value_or(std::min(kPredictionSlots, length_))),
      packed_sixteenths_(options.packed_sixteenths) {
  expect(length_ >= 1 && length_ <= encoder.positions, {"configuration", "sequence_length"},
         length_, "1 to the model's positions (", encoder.positions, ")");
  expect(slots_ >= 1 && slots_ <= length_, {"configuration", "prediction_slots"}, slots_,
         "1 to sequence_length (", length_, ")");
}

int64_t TextModel::length_of(const EncoderConfig& encoder, const nn::TrainingOptions& options) {
  return options.sequence_length.value_or(std::min(kSequenceLength, encoder.positions));
}

std::shared_ptr<const nn::Model> TextModel::configured(const nn::TrainingOptions& options) const {
  nn::TrainingOptions others = options;
  others.sequence_length.reset();
  others.prediction_slots.reset();
  others.packed_sixteenths = 0;
  return others == nn::TrainingOptions{} ? with(options) : Model::configured(others);
}

std::vector<nn::InputSpec> TextModel::token_inputs(nn::Mode mode) const {
  std::vector<nn::InputSpec> inputs{integers("input_ids", {length_}, {0, encoder_.vocabulary}),
                                    integers("segment_ids", {length_}, {0, kTypes}),
                                    integers("length", {}, {1, length_ + 1})};
  inputs.back().counts_places = true;
  // Rows that fill up the last batch of a data set have no token, and count nowhere.
  if (mode == nn::Mode::kEval) inputs.back().padding = 0;
  return inputs;
}

void TextModel::add_label(std::vector<nn::InputSpec>& inputs, nn::Mode mode, std::string name,
                          Dims sample, int64_t classes, std::optional<int64_t> none) {
  if (mode == nn::Mode::kPredict) return;
  inputs.push_back(integers(std::move(name), sample, {0, classes}));
  inputs.back().is_label = true;
  inputs.back().padding = none;
}

nn::Sequences TextModel::sequences(nn::Builder& b, ValueId lengths) const {
  const int64_t n = b.batch();
  return {b.graph().emit1(Arange{.count = n, .period = n, .step = length_}, {}), lengths, length_};
}

ValueId TextModel::embedded(nn::Builder& b, std::string_view scope, ValueId ids,
                            ValueId types) const {
  Graph& g = b.graph();
  const int64_t tokens = b.batch() * length_;
  const auto flat = [&](ValueId value) { return g.emit1(Reshape{{tokens}}, {value}); };
  const ValueId word = word_table(b, scope, encoder_);
  const auto shared = b.shared(scope);
  const auto table = [&](std::string_view name, int64_t rows) {
    const auto inner = b.scope(name);
    const Dims dims{rows, encoder_.hidden};
    return b.parameter("weight", dims, nn::bert_normal(dims), VariableKind::kEmbedding);
  };
  const ValueId position = table("position_embeddings", encoder_.positions);
  const ValueId type = table("token_type_embeddings", kTypes);
  const ValueId places = g.emit1(Arange{.count = tokens, .period = length_}, {});
  const ValueId sum = g.emit1(GatherRows{}, {word, position, type, flat(ids), places, flat(types)});
  return nn::dropout(b, "dropout", nn::layer_norm(b, "LayerNorm", sum, epsilon()),
                     static_cast<float>(encoder_.dropout));
}

nn::TransformerConfig TextModel::blocks() const {
  return {.layers = encoder_.layers,
          .heads = encoder_.heads,
          .inner = encoder_.inner,
          .dropout = static_cast<float>(encoder_.dropout),
          .attention_dropout = static_cast<float>(encoder_.attention_dropout),
          .epsilon = epsilon(),
          .activation = encoder_.activation()};
}

ValueId TextModel::encoded(nn::Builder& b, ValueId x, const nn::Sequences& all,
                           const nn::TransformerConfig& blocks, const Rows& wanted) const {
  const auto through = [&](const nn::Sequences& sequences) {
    return nn::transformer_layers(b, x, sequences, blocks, wanted ? wanted(sequences) : ValueId{});
  };
  if (packed_sixteenths_ == 0) return through(all);
  const int64_t capacity = (b.batch() * length_ * packed_sixteenths_ + 15) / 16;
  const auto places = b.graph().emit(PackedPlaces{capacity, length_}, {all.length});
  x = nn::rows_of(b, x, places[1]);
  x = through({places[0], all.length, length_});
  return wanted ? x : nn::rows_of(b, x, places[2]);
}

ValueId TextModel::vocabulary_logits(nn::Builder& b, ValueId x, const VocabularyHead& head) const {
  x = nn::bert_linear(b, head.dense, x, encoder_.hidden);
  x = nn::layer_norm(b, head.norm, nn::activation(b, encoder_.activation(), x), epsilon());
  const ValueId word = word_table(b, head.tables, encoder_);
  const ValueId bias = b.parameter(std::string(head.bias), {encoder_.vocabulary}, nn::constant(0),
                                   VariableKind::kBias);
  return b.graph().emit1(Matmul{.transpose_b = true, .has_bias = true}, {x, word, bias});
}

}  // namespace assay::models
