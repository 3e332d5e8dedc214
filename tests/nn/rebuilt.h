// Built-in models described layer by layer, for any writer: nn::NetworkWriter, or the C interface.
#pragma once

#include <sstream>
#include <string>

namespace assay::test {

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

inline constexpr const char* kRebuiltCnn =
    R"({"image": [12, 12, 1], "conv": [4, 6], "hidden": [16], "dropout": 0.25})";
inline constexpr const char* kRebuiltResNet = R"({"image": [16, 16, 3], "width": 8})";

// What ImageClassifier adds to logits of ten classes.
template <class Writer, class Value>
void add_classifier(Writer& w, Value logits) {
  const auto label = w.input("label", R"({"dtype": "i32", "label": true, "range": [0, 10]})");
  const auto rows = w.layer("count_targets", "rows", "", {label});
  const auto loss = w.layer("softmax_cross_entropy", "cross_entropy", "", {logits, label});
  const auto top1 = w.layer("top_k_correct", "best", "", {logits, label});
  const auto top5 = w.layer("top_k_correct", "five_best", R"({"k": 5})", {logits, label});
  w.output("loss", loss, rows, "");
  w.output("top1", top1, rows, "");
  w.output("top5", top5, rows, "");
  w.output("logits", logits, {}, "");
  w.output("probabilities", w.layer("probabilities", "softmax", "", {logits}), {}, "");
}

// models/cnn.cpp of kRebuiltCnn.
template <class Writer>
void add_cnn(Writer& w) {
  auto x = w.input("image", R"({"shape": [12, 12, 1]})");
  int block = 0;
  for (const int channels : {4, 6}) {
    const std::string name = joined("block", ++block);
    x = w.layer("conv2d", name + ".conv",
                joined(R"({"kernel": [5, 5], "padding": [2, 2], "bias": false, "channels": )",
                       channels, "}"),
                {x});
    x = w.layer("batch_norm", name + ".bn", "", {x});
    x = w.layer("activation", name + ".relu", "", {x});
    x = w.layer("max_pool", name + ".pool", "", {x});
  }
  x = w.layer("flatten", "flat", "", {x});
  x = w.layer("linear", "hidden1.linear", R"({"features": 16, "bias": false})", {x});
  x = w.layer("batch_norm", "hidden1.bn", "", {x});
  x = w.layer("activation", "hidden1.relu", "", {x});
  x = w.layer("dropout", "hidden1.dropout", R"({"rate": 0.25})", {x});
  add_classifier(w, w.layer("linear", "output", R"({"features": 10})", {x}));
}

// models/resnet18.cpp of kRebuiltResNet.
template <class Writer, class Value>
Value basic_block(Writer& w, const std::string& name, Value x, int channels, int stride,
                  bool projects) {
  const auto conv = [&](const std::string& of, Value from, int kernel, int step) {
    const int pad = kernel / 2;
    return w.layer("conv2d", name + of,
                   joined(R"({"bias": false, "channels": )", channels, R"(, "kernel": [)", kernel,
                          ", ", kernel, R"(], "stride": [)", step, ", ", step, R"(], "padding": [)",
                          pad, ", ", pad, "]}"),
                   {from});
  };
  const auto norm = [&](const std::string& of, Value from) {
    return w.layer("batch_norm", name + of, "", {from});
  };
  Value y = norm(".bn1", conv(".conv1", x, 3, stride));
  y = w.layer("activation", name + ".relu1", "", {y});
  y = norm(".bn2", conv(".conv2", y, 3, 1));
  if (projects) x = norm(".downsample.1", conv(".downsample.0", x, 1, stride));
  return w.layer("activation", name + ".relu2", "", {w.layer("add", name + ".sum", "", {y, x})});
}

template <class Writer>
void add_resnet18(Writer& w) {
  auto x = w.input("image", R"({"shape": [16, 16, 3]})");
  x = w.layer("conv2d", "conv1", R"({"channels": 8, "padding": [1, 1], "bias": false})", {x});
  x = w.layer("activation", "relu", "", {w.layer("batch_norm", "bn1", "", {x})});
  for (int stage = 0; stage < 4; ++stage) {
    const std::string name = joined("layer", stage + 1);
    x = basic_block(w, name + ".0", x, 8 << stage, stage == 0 ? 1 : 2, stage > 0);
    x = basic_block(w, name + ".1", x, 8 << stage, 1, false);
  }
  x = w.layer("global_average_pool", "pool", "", {x});
  add_classifier(w, w.layer("linear", "fc", R"({"features": 10})", {x}));
}

}  // namespace assay::test
