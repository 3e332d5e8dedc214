// What models of text share: the keys of an encoder, sequences as shapes of a batch, inputs of ids.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/nn/model.h"
#include "sdk/nn/transformer.h"

namespace assay::models {

// BERT-base, uncased (arXiv:1810.04805), which is ELECTRA-base's discriminator too.
struct EncoderConfig {
  int64_t vocabulary = 30522;
  int64_t hidden = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t inner = 3072;
  int64_t positions = 512;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double epsilon = 1e-12;
  std::string gelu = "erf";

  void fields(ConfigFields& f);
  ActivationKind activation() const;
};

// Checks it, for the model of this name.
void check(std::string_view model, const EncoderConfig& config);

class TextModel : public nn::Model {
 public:
  // kInvalid if the options ask for longer sequences than the position table has rows, or for more
  // slots than tokens.
  TextModel(const EncoderConfig& encoder, const nn::TrainingOptions& options);

  std::shared_ptr<const nn::Model> configured(const nn::TrainingOptions& options) const final;

  // Tokens of a sequence, as the options have it.
  static int64_t length_of(const EncoderConfig& encoder, const nn::TrainingOptions& options);

 protected:
  // The same model with other shapes of its batches.
  virtual std::shared_ptr<const nn::Model> with(const nn::TrainingOptions& options) const = 0;

  const EncoderConfig& encoder() const { return encoder_; }
  int64_t length() const { return length_; }  // tokens of a sequence, with its padding
  int64_t slots() const { return slots_; }    // masked words of a sequence
  float epsilon() const { return static_cast<float>(encoder_.epsilon); }

  // input_ids [length], segment_ids [length] and length [], i32.
  std::vector<nn::InputSpec> token_inputs(nn::Mode mode) const;
  // Integers below `classes`; not of predictions. In evaluation `none` is allowed too.
  static void add_label(std::vector<nn::InputSpec>& inputs, nn::Mode mode, std::string name,
                        Dims sample, int64_t classes, std::optional<int64_t> none);

  // Where the sequences of `lengths` [N] i32 stand.
  nn::Sequences sequences(nn::Builder& b, ValueId lengths) const;
  // ids, types [N,L] i32 -> [N*L,H], through the tables of the absolute scope `scope`, which
  // several towers may use.
  ValueId embedded(nn::Builder& b, std::string_view scope, ValueId ids, ValueId types) const;
  // The keys of the blocks.
  nn::TransformerConfig blocks() const;
  // x [N*L,H] -> [N*L,H], through blocks under the scope that is open. If the batch is packed they
  // see no padding, whose rows come out as zeros. With `wanted`, which names rows of sequences
  // where they lie -> [R] i32, only these come out: [R,H].
  using Rows = std::function<ValueId(const nn::Sequences&)>;
  ValueId encoded(nn::Builder& b, ValueId x, const nn::Sequences& all,
                  const nn::TransformerConfig& blocks, const Rows& wanted = nullptr) const;
  // x [N,H] -> [N,V]: dense, GELU, layer norm, the word table of the absolute scope `tables`, and a
  // bias. Names of the parameters in the scope that is open.
  struct VocabularyHead {
    std::string_view dense, norm, bias, tables;
  };
  ValueId vocabulary_logits(nn::Builder& b, ValueId x, const VocabularyHead& head) const;

 private:
  EncoderConfig encoder_;
  int64_t length_, slots_;
  int packed_sixteenths_;
};

}  // namespace assay::models
