// Networks of the host's own: the built-in models described through the C interface have their
// bits, checkpoints bring descriptions back, and misuse is refused by name and changes nothing.
#include <numeric>

#include "tests/capi/graph_writer.h"
#include "tests/nn/rebuilt.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

// A samples of tensors of any shapes.
class Batch {
 public:
  explicit Batch(const assay_context* context) : context_(context) {}
  void add(std::vector<float> numbers, const std::vector<int64_t>& shape) {
    floats_.push_back(std::make_unique<std::vector<float>>(std::move(numbers)));
    borrow(floats_.back()->data(), floats_.back()->size(), ASSAY_F32, shape);
  }
  void add(std::vector<int32_t> numbers, const std::vector<int64_t>& shape) {
    integers_.push_back(std::make_unique<std::vector<int32_t>>(std::move(numbers)));
    borrow(integers_.back()->data(), integers_.back()->size(), ASSAY_I32, shape);
  }
  std::vector<const assay_tensor*> tensors() const {
    std::vector<const assay_tensor*> all;
    for (const auto& tensor : owned_) all.push_back(tensor.get());
    return all;
  }

 private:
  void borrow(void* data, size_t count, assay_dtype dtype, const std::vector<int64_t>& shape) {
    owned_.push_back(make<assay_tensor>(assay_tensor_borrow, context_, data, count * 4, dtype,
                                        shape.data(), static_cast<int32_t>(shape.size()), nullptr,
                                        0));
  }
  const assay_context* context_;
  std::vector<std::unique_ptr<std::vector<float>>> floats_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> integers_;
  std::vector<Owned<assay_tensor>> owned_;
};

class GraphTest : public SmallModel {
 protected:
  // Images [8, side, side, channels] with labels below 10.
  Batch images(int64_t side, int64_t channels, int seed) const {
    Batch samples(context.get());
    std::vector<float> pixels(static_cast<size_t>(8 * side * side * channels));
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] =
          static_cast<float>((i * 7919 + static_cast<size_t>(seed) * 104729) % 1000) / 500 - 1;
    samples.add(std::move(pixels), {8, side, side, channels});
    std::vector<int32_t> labels(8);
    for (size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<int32_t>(i * 3 + static_cast<size_t>(seed)) % 10;
    samples.add(std::move(labels), {8});
    return samples;
  }

  Owned<assay_trainer> trainer_of(assay_model* model, const std::string& precision) const {
    const std::string config = R"({"batch_size": 8, "seed": 5, "precision": ")" + precision +
                               R"(", "optimizer": {"name": "sgd", "momentum": 0.9,
                               "learning_rate": 0.05, "weight_decay": 0.001}})";
    return make<assay_trainer>(assay_trainer_create, model, nullptr, text(config));
  }

  // Every byte of the model's variables, in the order of its report.
  std::vector<std::byte> all_bits(const assay_model* model) const {
    std::vector<std::byte> all;
    const auto described = report(assay_model_report, model);
    for (const auto& row : at(described, "variables").list_value().values()) {
      const auto& variable = row.struct_value();
      const bool trained = at(variable, "role").string_value() == "value";
      const auto some = bits(model, at(variable, "name").string_value(),
                             trained ? ASSAY_KIND_VALUE : ASSAY_KIND_STATISTIC);
      all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_GT(all.size(), 1000u);
    return all;
  }

  // The numbers of two predictions: logits and probabilities.
  std::vector<float> predict(const assay_model* model, const Batch& samples,
                             const std::string& precision = "fp32") const {
    const std::string config = R"({"precision": ")" + precision + R"("})";
    const auto predictor = make<assay_predictor>(assay_predictor_create, model, text(config));
    const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
    const auto described = report(assay_predictor_report, predictor.get());
    const auto n_in = static_cast<size_t>(at(described, "inputs").list_value().values_size());
    const auto n_out = static_cast<size_t>(at(described, "outputs").list_value().values_size());
    std::vector<assay_tensor*> out(n_out, nullptr);
    ok(assay_predictor_run, predictor.get(), slot.get(), samples.tensors().data(), n_in, out.data(),
       n_out);
    std::vector<float> numbers;
    for (assay_tensor* each : out) {
      const Owned<assay_tensor> owned(each);
      const auto values = floats_of(each);
      numbers.insert(numbers.end(), values.begin(), values.end());
    }
    return numbers;
  }

  // Trains both alike and expects the same bits everywhere.
  void expect_same_bits(assay_model* built_in, assay_model* described, int64_t side,
                        int64_t channels, const std::string& precision) const {
    const auto a = trainer_of(built_in, precision), b = trainer_of(described, precision);
    const auto first = all_bits(built_in);
    EXPECT_EQ(first, all_bits(described));
    for (int i = 0; i < 4; ++i) {
      const Batch samples = images(side, channels, i);
      assay_step_info theirs{.struct_size = sizeof theirs}, ours = theirs;
      ok(assay_trainer_step, a.get(), samples.tensors().data(), size_t{2}, &theirs);
      ok(assay_trainer_step, b.get(), samples.tensors().data(), size_t{2}, &ours);
      EXPECT_EQ(theirs.loss, ours.loss);
      EXPECT_EQ(theirs.grad_norm, ours.grad_norm);
    }
    EXPECT_EQ(all_bits(built_in), all_bits(described));
    EXPECT_NE(first, all_bits(described));
    const Batch samples = images(side, channels, 9);
    assay_eval_info theirs{.struct_size = sizeof theirs}, ours = theirs;
    ok(assay_trainer_eval, a.get(), samples.tensors().data(), size_t{2}, 0u, &theirs);
    ok(assay_trainer_eval, b.get(), samples.tensors().data(), size_t{2}, 0u, &ours);
    EXPECT_EQ(theirs.loss_sum, ours.loss_sum);
    EXPECT_EQ(theirs.top1, ours.top1);
    EXPECT_EQ(theirs.top5, ours.top5);
    EXPECT_EQ(ours.samples, 8);
    EXPECT_EQ(predict(built_in, samples, precision), predict(described, samples, precision));
  }

  Owned<assay_model> described_cnn() const {
    GraphWriter w(context.get());
    add_cnn(w);
    return w.finish();
  }
};

TEST_F(GraphTest, CnnHasTheBitsOfTheBuiltInOne) {
  for (const char* precision : {"fp32", "amp-bf16"}) {
    const auto built_in =
        make<assay_model>(assay_model_named, context.get(), text("cnn"), text(kRebuiltCnn));
    expect_same_bits(built_in.get(), described_cnn().get(), 12, 1, precision);
  }
}

TEST_F(GraphTest, ResNetHasTheBitsOfTheBuiltInOne) {
  for (const char* precision : {"fp32", "amp-bf16"}) {
    const auto built_in =
        make<assay_model>(assay_model_named, context.get(), text("resnet18"), text(kRebuiltResNet));
    GraphWriter w(context.get());
    add_resnet18(w);
    expect_same_bits(built_in.get(), w.finish().get(), 16, 3, precision);
  }
}

TEST_F(GraphTest, CheckpointsBringTheNetworkBack) {
  const TemporaryFolder folder;
  const std::string path = folder.at("own.ckpt");
  const auto whole = described_cnn(), first = described_cnn(), second = described_cnn();
  const auto run = [&](assay_trainer* trainer, int from, int to) {
    for (int i = from; i < to; ++i)
      ok(assay_trainer_step, trainer, images(12, 1, i).tensors().data(), size_t{2}, nullptr);
  };
  const auto uninterrupted = trainer_of(whole.get(), "fp32");
  run(uninterrupted.get(), 0, 5);
  {
    const auto trainer = trainer_of(first.get(), "fp32");
    run(trainer.get(), 0, 3);
    ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  }
  const auto resumed = trainer_of(second.get(), "fp32");
  ok(assay_checkpoint_load, resumed.get(), text(path), 0u, nullptr);
  run(resumed.get(), 3, 5);
  EXPECT_EQ(all_bits(whole.get()), all_bits(second.get()));

  // Without the code that described it.
  const auto opened = make<assay_model>(assay_model_open, context.get(), text(path));
  EXPECT_EQ(all_bits(opened.get()), all_bits(first.get()));
  EXPECT_EQ(predict(opened.get(), images(12, 1, 7)), predict(first.get(), images(12, 1, 7)));
  const auto inspected = report(assay_checkpoint_inspect, text(path));
  EXPECT_EQ(at(inspected, "model_name").string_value(), "graph");
  const auto from_file = trainer_of(opened.get(), "fp32");
  ok(assay_checkpoint_load, from_file.get(), text(path), 0u, nullptr);
  run(from_file.get(), 3, 5);
  EXPECT_EQ(all_bits(whole.get()), all_bits(opened.get()));

  // Another network is refused.
  GraphWriter other(context.get());
  auto x = other.input("image", R"({"shape": [12, 12, 1]})");
  x = other.layer("linear", "fc", R"({"features": 10})", {other.layer("flatten", "f", "", {x})});
  add_classifier(other, x);
  const auto wrong = other.finish();
  const auto trainer = trainer_of(wrong.get(), "fp32");
  EXPECT_THAT(call(assay_checkpoint_load, trainer.get(), text(path), 0u, nullptr).argument,
              HasSubstr("model.layers"));
}

TEST_F(GraphTest, TheReportsConfigurationMakesTheModel) {
  const auto model = described_cnn();
  const auto described = make<assay_report>(assay_model_report, model.get());
  const std::string shown = string(assay_report_text(described.get()));
  const std::string begin = R"({"architecture":"graph","config":)";
  ASSERT_THAT(shown, testing::StartsWith(begin));
  const size_t end = shown.find(R"(,"parameters":)");
  const std::string config = shown.substr(begin.size(), end - begin.size());
  const auto again =
      make<assay_model>(assay_model_named, context.get(), text("graph"), text(config));
  const auto same = make<assay_report>(assay_model_report, again.get());
  EXPECT_EQ(string(assay_report_text(same.get())), shown);
}

// Words whose first one tells the class, through a block of a transformer.
TEST_F(GraphTest, TextNetworkLearns) {
  for (const char* precision : {"fp32", "amp-bf16"}) {
    GraphWriter w(context.get());
    const auto ids = w.input("ids", R"({"dtype": "i32", "shape": [6], "range": [0, 20]})");
    const auto length = w.input("length", R"({"dtype": "i32", "range": [1, 7]})");
    auto x = w.layer("embedding", "words", R"({"rows": 20, "features": 16, "stddev": 0.5})", {ids});
    x = w.layer("position_embedding", "places", R"({"rows": 6, "stddev": 0.5})", {x});
    auto y = w.layer("self_attention", "attention", R"({"heads": 4, "dropout": 0.1})", {x, length});
    y = w.layer("linear", "dense", R"({"features": 16})", {y});
    x = w.layer("layer_norm", "norm", "", {w.layer("add", "sum", "", {x, y})});
    x = w.layer("activation", "gelu", R"({"function": "gelu"})", {x});
    x = w.layer("slice", "first", R"({"axis": 1, "size": 1})", {x});
    x = w.layer("reshape", "row", R"({"shape": [-1, 16]})", {x});
    const auto logits = w.layer("linear", "head", R"({"features": 10})", {x});
    add_classifier(w, logits);
    const auto model = w.finish();
    const auto trainer = trainer_of(model.get(), precision);
    assay_step_info info{.struct_size = sizeof info};
    double first = 0;
    for (int i = 0; i < 60; ++i) {
      Batch samples(context.get());
      std::vector<int32_t> words(48), lengths(8), labels(8);
      for (size_t k = 0; k < words.size(); ++k)
        words[k] = static_cast<int32_t>((k * 7 + static_cast<size_t>(i) * 5) % 20);
      for (size_t n = 0; n < 8; ++n) {
        lengths[n] = static_cast<int32_t>(1 + (n + static_cast<size_t>(i)) % 6);
        labels[n] = words[n * 6] / 2;
      }
      samples.add(words, {8, 6});
      samples.add(lengths, {8});
      samples.add(labels, {8});
      ok(assay_trainer_step, trainer.get(), samples.tensors().data(), size_t{3}, &info);
      if (i == 0) first = info.loss;
    }
    EXPECT_GT(first, 1.5);
    EXPECT_LT(info.loss, 0.6) << precision;
  }
}

// What a prediction gives may be what it was given.
TEST_F(GraphTest, PredictionsMayShowTheirInputs) {
  GraphWriter w(context.get());
  const auto image = w.input("image", R"({"shape": [2, 2, 1]})");
  const auto flat = w.layer("flatten", "flat", "", {image});
  w.output("pixels", flat, 0, "");
  add_classifier(w, w.layer("linear", "fc", R"({"features": 10})", {flat}));
  const auto model = w.finish();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  Batch samples(context.get());
  samples.add(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2, 1});
  const std::vector<float> all = predict(model.get(), samples);
  EXPECT_THAT(std::vector<float>(all.begin(), all.begin() + 8),
              testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// ---- Misuse ----

TEST_F(GraphTest, NullsAreRefused) {
  GraphWriter w(context.get());
  assay_graph* const none = nullptr;
  assay_graph* graph_out = nullptr;
  assay_model* model_out = nullptr;
  assay_report* report_out = nullptr;
  assay_value value = 0;
  const assay_value* const no_values = nullptr;
  const assay_str empty = text("");
  const auto argument = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID) << outcome.message;
    return outcome.argument;
  };
  EXPECT_EQ(argument(call(assay_graph_create, nullptr, empty, &graph_out)), "c");
  EXPECT_EQ(argument(call(assay_graph_create, context.get(), empty, nullptr)), "out");
  EXPECT_EQ(argument(call(assay_graph_create, context.get(), assay_str{nullptr, 2}, &graph_out)),
            "name");
  EXPECT_EQ(argument(call(assay_graph_input, none, text("x"), empty, &value)), "g");
  EXPECT_EQ(argument(call(assay_graph_input, w.graph.get(), text("x"), empty, nullptr)), "out");
  EXPECT_EQ(argument(call(assay_graph_layer, none, text("add"), text("a"), empty, &value, size_t{1},
                          &value, size_t{1})),
            "g");
  EXPECT_EQ(argument(call(assay_graph_layer, w.graph.get(), text("add"), text("a"), empty,
                          no_values, size_t{1}, &value, size_t{1})),
            "in");
  EXPECT_EQ(argument(call(assay_graph_layer, w.graph.get(), text("add"), text("a"), empty,
                          no_values, size_t{0}, nullptr, size_t{1})),
            "out");
  EXPECT_EQ(argument(call(assay_graph_layer, w.graph.get(), text("add"), text("a"), empty,
                          no_values, size_t{0}, nullptr, size_t{0})),
            "n_out");
  for (const size_t many : {size_t{65}, ~size_t{0}}) {
    EXPECT_EQ(argument(call(assay_graph_layer, w.graph.get(), text("add"), text("a"), empty, &value,
                            many, &value, size_t{1})),
              "n_in");
    EXPECT_EQ(argument(call(assay_graph_layer, w.graph.get(), text("add"), text("a"), empty, &value,
                            size_t{1}, &value, many)),
              "n_out");
  }
  EXPECT_EQ(argument(call(assay_graph_output, none, text("x"), value, value, empty)), "g");
  EXPECT_EQ(argument(call(assay_graph_report, none, &report_out)), "g");
  EXPECT_EQ(argument(call(assay_graph_finish, none, &model_out)), "g");
  EXPECT_EQ(argument(call(assay_graph_finish, w.graph.get(), nullptr)), "out");
  assay_graph_free(nullptr);
}

// An image, its classes and nothing else yet.
struct Begun : GraphWriter {
  using GraphWriter::GraphWriter;
  assay_value image = input("image", R"({"shape": [8, 8, 1]})");
  assay_value label = input("label", R"({"dtype": "i32", "label": true, "range": [0, 10]})");
  assay_value flat = layer("flatten", "flat", "", {image});

  void classify() {
    const auto logits = layer("linear", "fc", R"({"features": 10})", {flat});
    output("loss", layer("softmax_cross_entropy", "loss_of_it", "", {logits, label}), 0, "");
    output("logits", logits, 0, "");
  }
  Outcome refused(std::string_view kind, std::string_view name, std::string_view keys,
                  std::vector<assay_value> in) {
    assay_value out = 77;
    Outcome outcome = call(assay_graph_layer, graph.get(), text(kind), text(name), text(keys),
                           in.data(), in.size(), &out, size_t{1});
    EXPECT_EQ(out, 77u);
    return outcome;
  }
};

TEST_F(GraphTest, LayersThatDoNotFitAreRefusedByName) {
  Begun w(context.get()), other(context.get());
  Outcome outcome = w.refused("conv", "c", "", {w.image});
  EXPECT_EQ(outcome.status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(outcome.op_path, "c");
  EXPECT_THAT(outcome.hint, HasSubstr("conv2d"));
  outcome = w.refused("linear", "fc", R"({"feature": 10})", {w.flat});
  EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
  EXPECT_EQ(outcome.argument, "feature");
  EXPECT_EQ(outcome.hint, "did you mean \"features\"?");
  EXPECT_EQ(outcome.op_path, "fc");
  outcome = w.refused("linear", "fc", "", {w.flat});
  EXPECT_EQ(outcome.message, "fc (linear): features is not given, expected 1 to 2^20");
  EXPECT_EQ(outcome.op_path, "fc");
  outcome = w.refused("flatten", "f", R"({"axis": 1})", {w.image});
  EXPECT_THAT(outcome.message, HasSubstr("; it takes none"));
  outcome = w.refused("activation", "a", R"({"function": "silu"})", {w.flat});
  EXPECT_EQ(outcome.hint, "");
  outcome = w.refused("max_pool", "p", R"({"window": 9})", {w.image});
  EXPECT_EQ(outcome.op_path + " " + outcome.argument + " " + outcome.actual, "p window 9");
  EXPECT_EQ(outcome.expected, "at most 8, rows or columns of x with its padding");
  outcome = w.refused("add", "s", "", {w.image, w.flat});
  EXPECT_EQ(outcome.op_path + " " + outcome.argument + " " + outcome.actual, "s b [2,64]");
  EXPECT_THAT(outcome.message, HasSubstr("; it reads image f32[2,8,8,1] and flat f32[2,64]"));
  outcome = w.refused("conv2d", "c", R"({"channels": 4})", {w.flat});
  EXPECT_EQ(outcome.op_path, "c");
  EXPECT_EQ(outcome.argument, "x");
  EXPECT_EQ(outcome.expected, "[N,H,W,C]");
  EXPECT_EQ(outcome.actual, "f32[2,64]");
  EXPECT_EQ(w.refused("linear", "flat", R"({"features": 4})", {w.flat}).argument, "name");
  EXPECT_EQ(w.refused("flatten", "g", "", {0}).actual, "0, no value");
  EXPECT_EQ(w.refused("flatten", "g", "", {other.image}).actual, "a value of another graph");
  EXPECT_EQ(w.refused("flatten", "g", "", {w.image + 3}).actual, "a value of another graph");
  EXPECT_EQ(w.refused("flatten", "g", "", {0}).op_path, "g");
  EXPECT_EQ(
      w.refused("conv2d", "c", R"({"channels": 65536, "kernel": [1023, 1023]})", {w.image}).op_path,
      "c");
  assay_value value = 5;
  EXPECT_EQ(call(assay_graph_output, w.graph.get(), text("x"), other.flat, 0, text("")).argument,
            "value");
  EXPECT_EQ(
      call(assay_graph_output, w.graph.get(), text("x"), w.flat, other.flat, text("")).argument,
      "weight");
  const std::string_view huge = R"({"shape": [1073741824, 1073741824, 1073741824]})";
  EXPECT_THAT(
      fails(ASSAY_E_INVALID, assay_graph_input, w.graph.get(), text("huge"), text(huge), &value),
      HasSubstr(
          "huge: shape is [1073741824,1073741824,1073741824], expected at most 2^40 numbers"));
  EXPECT_EQ(value, 5u);
  outcome = call(assay_graph_input, w.graph.get(), text("x"), text(R"({"shap": [2]})"), &value);
  EXPECT_EQ(outcome.op_path + " " + outcome.argument, "x shap");

  // Nothing of it is left.
  const auto described = report(assay_graph_report, w.graph.get());
  const auto& values = at(described, "values").list_value().values();
  ASSERT_EQ(values.size(), 3);
  EXPECT_EQ(at(values[2].struct_value(), "name").string_value(), "flat");
  EXPECT_EQ(at(values[2].struct_value(), "shape").list_value().values(1).number_value(), 64);
  w.classify();
  EXPECT_NE(w.finish(), nullptr);
}

// What is refused takes no name, so that the graph can be completed.
TEST_F(GraphTest, OutputsThatDoNotFitAreRefusedWhereTheyAreMade) {
  Begun w(context.get());
  const auto output = [&](const char* name, assay_value value, assay_value weight,
                          const char* keys = "") {
    return call(assay_graph_output, w.graph.get(), text(name), value, weight, text(keys));
  };
  const auto other = w.input("other", R"({"dtype": "i32", "range": [0, 10]})");
  const auto logits = w.layer("linear", "fc", R"({"features": 10})", {w.flat});
  const auto loss = w.layer("softmax_cross_entropy", "xe", "", {logits, w.label});
  const auto rows = w.layer("count_targets", "rows", "", {w.label});
  Outcome outcome = output("loss", logits, 0);
  EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
  EXPECT_EQ(outcome.argument, "value");
  EXPECT_EQ(outcome.actual, "f32[2,10]");
  EXPECT_THAT(outcome.expected, HasSubstr("[], a single number"));
  EXPECT_THAT(outcome.message, testing::StartsWith("loss: value is f32[2,10], expected []"));
  outcome = output("loss", w.layer("softmax_cross_entropy", "unlabelled", "", {logits, other}), 0);
  EXPECT_THAT(outcome.message, HasSubstr("declare the input of the answers with \"label\": true"));
  outcome = output("loss", loss, logits);
  EXPECT_EQ(outcome.argument, "weight");
  EXPECT_EQ(outcome.actual, "f32[2,10]");
  outcome = output("logits", w.layer("reshape", "halves", R"({"shape": [-1, 5]})", {logits}), 0);
  EXPECT_EQ(outcome.argument, "value");
  EXPECT_EQ(outcome.actual, "f32[4,5]");
  EXPECT_THAT(outcome.expected, HasSubstr("a row for each of 2 samples"));
  outcome = output("logits", logits, 0, R"({"reduction": "max"})");
  EXPECT_EQ(outcome.argument, "reduction");
  EXPECT_EQ(outcome.hint, "");
  EXPECT_EQ(output("logits", logits, 0, R"({"reduction": "mean"})").argument, "reduction");
  const auto side = w.layer("linear", "side", R"({"features": 10})", {w.flat});
  EXPECT_THAT(output("loss", loss, rows).message,
              HasSubstr("loss: value is independent of side.weight, expected what"));
  const auto sum = w.layer("add", "sum", "", {logits, side});
  w.output("loss", w.layer("softmax_cross_entropy", "of_sum", "", {sum, w.label}), rows, "");
  EXPECT_THAT(w.refused("linear", "late", R"({"features": 2})", {w.flat}).message,
              HasSubstr("the loss is there already, and cannot depend on late.weight"));
  w.output("logits", sum, 0, "");
  assay_model* none = nullptr;
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_graph_finish, w.graph.get(), &none),
              HasSubstr("xe leads to no output; make an output of it"));
}

// Half of the labels are -1: what a training step divides by is said by "mean", and an evaluation
// by the weight.
TEST_F(GraphTest, PaddingCountsWhereItIsSaidTo) {
  struct Network {
    Owned<assay_model> model;
    Owned<assay_trainer> trainer;
    assay_step_info backward(const Batch& of) const {
      assay_step_info info{.struct_size = sizeof info};
      ok(assay_trainer_backward, trainer.get(), of.tensors().data(), size_t{2}, &info);
      return info;
    }
  };
  const auto network = [&](std::string_view keys, bool counts) {
    GraphWriter w(context.get());
    const auto x = w.input("x", R"({"shape": [3]})");
    const auto label =
        w.input("label", R"({"dtype": "i32", "label": true, "range": [0, 4], "padding": -1})");
    const auto logits = w.layer("linear", "fc", R"({"features": 4})", {x});
    const auto rows = w.layer("count_targets", "rows", "", {label});
    const auto loss = w.layer("softmax_cross_entropy", "xe", keys, {logits, label});
    w.output("loss", loss, counts ? rows : 0, "");
    w.output("rows", rows, 0, R"({"reduction": "sum"})");
    w.output("logits", logits, 0, "");
    Owned<assay_model> model = w.finish();
    Owned<assay_trainer> trainer = trainer_of(model.get(), "fp32");
    return Network{std::move(model), std::move(trainer)};
  };
  Batch half(context.get()), none(context.get());
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) / 4 - 1;
  half.add(x, {8, 3});
  half.add(std::vector<int32_t>{0, -1, 3, -1, -1, 2, 1, -1}, {8});
  none.add(x, {8, 3});
  none.add(std::vector<int32_t>(8, -1), {8});

  const Network rows = network("", false), counted = network(R"({"mean": "counted"})", true);
  assay_eval_info all{.struct_size = sizeof all}, some = all;
  ok(assay_trainer_eval, rows.trainer.get(), half.tensors().data(), size_t{2}, 0u, &all);
  ok(assay_trainer_eval, counted.trainer.get(), half.tensors().data(), size_t{2}, 0u, &some);
  EXPECT_EQ(all.samples, 8);
  EXPECT_EQ(some.samples, 4);
  EXPECT_EQ(all.loss_sum, some.loss_sum);

  EXPECT_NEAR(rows.backward(half).loss, all.loss_sum / 8, 1e-6);
  EXPECT_NEAR(counted.backward(half).loss, some.loss_sum / 4, 1e-6);
  const auto gradient = [&](const Network& of) {
    const auto bytes = bits(of.model.get(), "fc.weight", ASSAY_KIND_GRADIENT);
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  };
  const auto of_all = gradient(rows), of_some = gradient(counted);
  EXPECT_NE(of_all, std::vector<float>(of_all.size()));
  for (size_t i = 0; i < of_all.size(); ++i) EXPECT_NEAR(of_some[i], 2 * of_all[i], 1e-6);

  // What only evaluations give is told after a step.
  ok(assay_trainer_apply, counted.trainer.get(), nullptr);
  double value = 0;
  const Outcome outcome = call(assay_trainer_scalar, counted.trainer.get(), text("rows"), &value);
  EXPECT_EQ(outcome.status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(outcome.hint, "evaluate a batch: evaluations compute it");

  // Of nothing the mean is 0, and so is what is learnt of it.
  EXPECT_EQ(counted.backward(none).loss, 0);
  for (const float number : gradient(counted)) EXPECT_EQ(number, 0);
}

TEST_F(GraphTest, PlacesForResultsMayBeThoseOfInputsAndMore) {
  Begun w(context.get());
  assay_value places[3] = {w.image, 8, 9};
  ok(assay_graph_layer, w.graph.get(), text("flatten"), text("again"), text(""),
     static_cast<const assay_value*>(places), size_t{1}, places, size_t{3});
  EXPECT_NE(places[0], w.image);
  EXPECT_NE(places[0], 0u);
  EXPECT_EQ(places[1] + places[2], 0u);
}

TEST_F(GraphTest, FinishedOnceAndForAll) {
  Begun w(context.get());
  assay_model* out = nullptr;
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_graph_finish, w.graph.get(), &out),
              HasSubstr("no output is called \"loss\""));
  w.classify();
  const auto model = w.finish();  // completed after the failure
  for (const std::string& message :
       {fails(ASSAY_E_INVALID, assay_graph_finish, w.graph.get(), &out),
        fails(ASSAY_E_INVALID, assay_graph_output, w.graph.get(), text("x"), w.flat, assay_value{0},
              text("")),
        w.refused("flatten", "f", "", {w.image}).message})
    EXPECT_THAT(message, HasSubstr("finished"));
  EXPECT_EQ(at(report(assay_graph_report, w.graph.get()), "values").list_value().values_size(), 5);
  w.graph.reset();  // the model does without
  ok(assay_model_initialize, model.get(), uint64_t{1});
}

}  // namespace
}  // namespace assay::test
