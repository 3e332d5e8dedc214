// Files that transformers wrote, and older and Google's ones, load as the header says and give what
// transformers computes. tests/fixtures/models/make_hugging_face.py wrote them.
#include <fstream>
#include <map>
#include <sstream>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

const std::string kFiles = ASSAY_SOURCE_DIR "/tests/fixtures/models/";

constexpr int64_t kRows = 2, kLength = 10, kSlots = 2;

class HuggingFaceTest : public testing::Test {
 protected:
  HuggingFaceTest() {
    for (int i = 0; i < kRows * kLength; ++i) {
      ids_.push_back(5 + 7 * i % 35);
      segments_.push_back(i % kLength >= 3);
    }
    ids_[0] = ids_[10] = 1;
    ids_[9] = ids_[15] = 2;
    const int64_t shape[] = {kRows, kLength}, slots[] = {kRows, kSlots};
    const auto borrow = [&](std::vector<int32_t>& values, const int64_t* dims, int32_t rank) {
      batch_.push_back(
          make<assay_tensor>(assay_tensor_borrow, context_.get(), static_cast<void*>(values.data()),
                             values.size() * sizeof(int32_t), ASSAY_I32, dims, rank, nullptr, 0));
    };
    borrow(ids_, shape, 2), borrow(segments_, shape, 2), borrow(lengths_, shape, 1);
    borrow(positions_, slots, 2);
    for (const auto& tensor : batch_) inputs_.push_back(tensor.get());

    std::ifstream file(kFiles + "hugging_face_outputs.tsv");
    for (std::string line, name; std::getline(file, line);) {
      std::istringstream fields(line);
      fields >> name;
      for (double value = 0; fields >> value;) expected_[name].push_back(value);
    }
  }

  Owned<assay_model> model(std::string_view architecture, std::string_view more = "") const {
    const std::string config = R"({"vocabulary": 40, "hidden": 16, "layers": 2, "heads": 2,
                                   "inner": 32, "positions": 12)";
    return make<assay_model>(assay_model_named, context_.get(), text(architecture),
                             text(config + std::string(more) + "}"));
  }
  // `names`: a file of models/names, or none.
  static google::protobuf::Struct load(assay_model* model, const std::string& weights,
                                       const std::string& names = "", uint32_t flags = 0) {
    std::string map;
    if (!names.empty()) {
      std::ifstream file(ASSAY_SOURCE_DIR "/models/names/" + names + ".json");
      map.assign(std::istreambuf_iterator<char>(file), {});
      EXPECT_FALSE(map.empty()) << names;
    }
    return report(assay_model_load_weights, model, text(kFiles + weights + ".safetensors"),
                  text("safetensors"), text(map), flags);
  }
  static int count(const google::protobuf::Struct& loaded, const char* list) {
    return at(loaded, list).list_value().values_size();
  }
  std::vector<Owned<assay_tensor>> predict(const assay_model* of, size_t inputs,
                                           size_t outputs) const {
    const auto predictor =
        make<assay_predictor>(assay_predictor_create, of,
                              text(inputs == 4 ? R"({"sequence_length": 10, "prediction_slots": 2})"
                                               : R"({"sequence_length": 10})"));
    const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
    std::vector<assay_tensor*> out(outputs);
    ok(assay_predictor_run, predictor.get(), slot.get(), inputs_.data(), inputs, out.data(),
       outputs);
    std::vector<Owned<assay_tensor>> owned(outputs);
    for (size_t i = 0; i < outputs; ++i) owned[i].reset(out[i]);
    return owned;
  }
  void expect_output(const std::string& name, const assay_tensor* got) const {
    const auto& expected = expected_.at(name);
    const auto values = floats_of(got);
    ASSERT_GE(values.size(), expected.size()) << name;  // padding comes last
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 1e-5) << name << " " << i;
  }
  Owned<assay_context> context_ = make_context();
  std::vector<int32_t> ids_, segments_, lengths_{10, 6}, positions_{2, 5, 2, 5};
  std::vector<Owned<assay_tensor>> batch_;
  std::vector<const assay_tensor*> inputs_;
  std::map<std::string, std::vector<double>> expected_;
};

// As save_pretrained leaves it, names are ours and nothing is left. Of an older file the numbers of
// the positions and the decoder, which is the table of words again, are not used, of Google's what
// the optimizer left.
TEST_F(HuggingFaceTest, BertOfThreeTimes) {
  struct File {
    const char *weights, *names;
    int unused;
  };
  for (const File& file : {File{"hugging_face_bert", "", 0},
                           {"hugging_face_older_bert", "bert_gamma_beta", 3},
                           {"google_bert", "bert_google", 3}}) {
    SCOPED_TRACE(file.weights);
    const auto bert = model("bert_base");
    const auto loaded = load(bert.get(), file.weights, file.names);
    EXPECT_EQ(count(loaded, "loaded"), 46);
    EXPECT_EQ(count(loaded, "unused"), file.unused);
    const auto out = predict(bert.get(), 4, 2);
    expect_output("masked_lm_logits", out[0].get());
    expect_output("next_sentence_logits", out[1].get());
  }
}

// One file after the other, each a part of the model, which has to have weights before.
TEST_F(HuggingFaceTest, ElectraOfTwoFiles) {
  const auto electra = model("electra_base_pretraining", R"(, "generator_hidden": 8,
      "generator_layers": 2, "generator_heads": 2, "generator_inner": 16, "masked_fraction": 0.3,
      "cls": 1, "sep": 2, "mask": 3)");
  ok(assay_model_initialize, electra.get(), uint64_t{1});
  int loaded = 0;
  for (const std::string network : {"generator", "discriminator"}) {
    const auto part =
        load(electra.get(), "hugging_face_" + network, "electra_" + network, ASSAY_WEIGHTS_PARTIAL);
    EXPECT_EQ(count(part, "unused") + count(part, "mismatched"), 0) << network;
    loaded += count(part, "loaded");
  }
  EXPECT_EQ(loaded, 85);  // the five of the embeddings are in both
  expect_output("discriminator_logits", predict(electra.get(), 3, 1)[0].get());

  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kRows, .seed = 7, .learning_rate = 0.1};
  const auto trainer =
      make<assay_trainer>(assay_trainer_create, electra.get(), &options,
                          text(R"({"optimizer": {"name": "sgd"}, "sequence_length": 10})"));
  ok(assay_trainer_eval, trainer.get(), inputs_.data(), size_t{3}, 0u, nullptr);
  expect_output(
      "generator_logits",
      make<assay_tensor>(assay_trainer_output, trainer.get(), text("generator_logits")).get());
}

}  // namespace
}  // namespace assay::test
