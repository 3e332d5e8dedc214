// Every kind of layer with the values of a naive f64 reference, and with the gradients that central
// differences of the loss say. The network around it is a linear layer before, so that gradients
// pass through the kind, and a weighted mean of its results, or the kind itself if it is a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>

#include "sdk/backend/cpu/device.h"
#include "sdk/nn/network.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"

namespace assay::nn {
namespace {

using Numbers = std::vector<double>;
constexpr int64_t kBatch = 3;

// What a reference is computed from: h, the linear layer's result, and x, the input, [N,
// sample...].
struct Given {
  Numbers h, x;
  std::vector<int32_t> lengths;
  std::function<Numbers(const std::string& parameter)> weight;
};

struct Case {
  std::string kind, keys;
  std::vector<int64_t> sample;        // of x and h
  std::vector<std::string> operands;  // "h", "x", "length", "target"
  std::vector<int64_t> result;        // sample of y; of losses empty
  std::function<Numbers(const Given&)> reference;
  std::string target;  // keys of the input "target" of losses
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.kind << c.keys;
  }
};

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}
std::string shape_json(const std::vector<int64_t>& shape) {
  std::string list;
  for (const int64_t size : shape) list += cat(list.empty() ? "" : ", ", size);
  return cat(R"("shape": [)", list, "]");
}

class LayerKinds : public testing::TestWithParam<Case> {
 protected:
  LayerKinds() : c_(GetParam()) {
    x_.resize(static_cast<size_t>(kBatch * product(c_.sample)));
    for (size_t i = 0; i < x_.size(); ++i)
      x_[i] = static_cast<float>(static_cast<int>(i * 37 % 23) - 11) / 8;
    weigh_.resize(static_cast<size_t>(kBatch * product(c_.result)));
    for (size_t i = 0; i < weigh_.size(); ++i)
      weigh_[i] = static_cast<float>(static_cast<int>(i * 29 % 17) - 6) / 8;
    make_targets();
    describe();
  }

  void make_targets() {
    const size_t n = x_.size();
    for (size_t i = 0; i < n; ++i) integers_.push_back(static_cast<int32_t>(i * 5 % 3) - 1);
    if (c_.kind == "softmax_cross_entropy") integers_ = {1, c_.keys.empty() ? 0 : -1, 2};
    const size_t classes = static_cast<size_t>(c_.sample.back());
    for (size_t i = 0; i < n; ++i)
      targets_.push_back(i / classes % classes == i % classes ? 0.75f : 0.125f);
  }

  void describe() {
    NetworkWriter w("case");
    std::map<std::string, NetworkValue> values;
    values["x"] = w.input("x", cat("{", shape_json(c_.sample), "}"));
    const NetworkValue x[] = {values["x"]};
    values["h"] = w.layer("linear", "before", cat(R"({"features": )", c_.sample.back(), "}"), x);
    for (const std::string& name : c_.operands) {
      if (name == "length") values[name] = w.input(name, R"({"dtype": "i32", "range": [0, 5]})");
      if (name == "target") values[name] = w.input(name, c_.target);
    }
    std::vector<NetworkValue> operands;
    for (const std::string& name : c_.operands) operands.push_back(values.at(name));
    const NetworkValue y = w.layer(c_.kind, "kind", c_.keys, operands);
    if (is_loss()) {
      w.output("loss", y, {}, "");
    } else {
      const NetworkValue r =
          w.input("weigh", cat(R"({"label": true, )", shape_json(c_.result), "}"));
      const NetworkValue both[] = {y, r};
      const NetworkValue weighed[] = {w.layer("multiply", "weighed", "", both)};
      w.output("loss", w.layer("mean", "mean", "", weighed), {}, "");
      w.output("y", y, {}, "");
    }
    w.output("h", values["h"], {}, "");
    instance_ = std::make_shared<train::ModelInstance>(
        w.finish(), std::shared_ptr<Backend>(cpu::make_backend({.threads = 2})));
  }

  bool is_loss() const { return !c_.target.empty(); }
  bool has_integer_target() const { return c_.target.find("i32") != std::string::npos; }

  train::HostTensor tensor(const std::vector<int64_t>& sample, DType dtype,
                           const void* data) const {
    std::vector<int64_t> sizes{kBatch};
    sizes.insert(sizes.end(), sample.begin(), sample.end());
    return {dtype, Dims(sizes), data};
  }
  std::vector<train::HostTensor> batch(bool prediction = false) const {
    std::vector<train::HostTensor> tensors{tensor(c_.sample, DType::kF32, x_.data())};
    for (const std::string& name : c_.operands) {
      if (name == "length") tensors.push_back(tensor({}, DType::kI32, lengths_.data()));
      if (name != "target" || prediction) continue;
      const bool is_class = c_.kind == "softmax_cross_entropy";
      tensors.push_back(has_integer_target() ? tensor(is_class ? std::vector<int64_t>{} : c_.sample,
                                                      DType::kI32, integers_.data())
                                             : tensor(c_.sample, DType::kF32, targets_.data()));
    }
    if (!is_loss() && !prediction) tensors.push_back(tensor(c_.result, DType::kF32, weigh_.data()));
    return tensors;
  }

  Numbers weight(const std::string& name) const {
    const SegmentTensor found = instance_->segments().tensor(name, Role::kValue);
    const auto* data = static_cast<const float*>(found.data);
    return {data, data + found.variable->dims.numel()};
  }
  static Numbers output(Program& program, std::string_view name) {
    for (const Program::Port& port : program.outputs()) {
      if (port.name != name) continue;
      const auto* data = static_cast<const float*>(port.data);
      return {data, data + port.type.dims.numel()};
    }
    ADD_FAILURE() << "no output " << name;
    return {};
  }
  train::Trainer make_trainer() const {
    train::TrainerConfig config;
    config.optimizer.name = "sgd";
    config.optimizer.learning_rate = 0.1;
    config.batch_size = kBatch;
    config.seed = 4;
    return {instance_, config};
  }

  const Case& c_;
  std::vector<float> x_, weigh_, targets_;
  std::vector<int32_t> integers_, lengths_{4, 2, 3};
  std::shared_ptr<train::ModelInstance> instance_;
};

TEST_P(LayerKinds, ValuesAreThoseOfTheReference) {
  instance_->ensure_initialized(4);
  Numbers h, y;
  {
    const train::Predictor predictor(*instance_, {});
    train::PredictorSlot slot(predictor);
    Program& program = slot.run(batch(true));
    h = output(program, "h");
    if (!is_loss()) y = output(program, "y");
  }
  if (is_loss()) {
    auto trainer = make_trainer();
    y = {trainer.backward(batch()).loss};
  }
  const Numbers expected = c_.reference(
      {h, {x_.begin(), x_.end()}, lengths_, [&](const std::string& name) { return weight(name); }});
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-5 * std::max(1.0, std::abs(expected[i]))) << i;
}

TEST_P(LayerKinds, GradientsAreDifferencesOfTheLoss) {
  auto trainer = make_trainer();
  const double loss = trainer.backward(batch()).loss;
  std::map<std::string, std::vector<float>> gradients;
  for (const SegmentTensor& each : instance_->segments().all(Role::kGradient)) {
    const auto* data = static_cast<const float*>(each.data);
    gradients[each.variable->name].assign(data, data + each.variable->dims.numel());
  }
  // Of an evaluation the loss is a sum over the samples, or over what counts.
  const auto evaluated = [&] {
    const train::EvalOutput of_batch = find_output(trainer.eval(batch()), "loss");
    const double counted = has_integer_target()
                               ? static_cast<double>(std::ranges::count_if(
                                     integers_, [](int32_t target) { return target >= 0; }))
                               : of_batch.weight;
    return of_batch.value / counted;
  };
  EXPECT_NEAR(evaluated(), loss, 1e-5);
  constexpr float kStep = 1.0f / 128;
  int moved = 0;
  for (const auto& [name, gradient] : gradients) {
    auto* values = static_cast<float*>(const_cast<void*>(
        static_cast<const void*>(instance_->segments().tensor(name, Role::kValue).data)));
    const size_t stride = std::max<size_t>(1, gradient.size() / 7);
    for (size_t i = 0; i < gradient.size(); i += stride) {
      const float before = values[i];
      values[i] = before + kStep;
      const double above = evaluated();
      values[i] = before - kStep;
      const double below = evaluated();
      values[i] = before;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 2e-3) << name << "[" << i << "]";
      moved += std::abs(gradient[i]) > 1e-3 ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 2);
}

// ---- References ----

// Element [n, i, j, c] of images of these sizes.
struct Image {
  const Numbers& data;
  int64_t rows, columns, channels;
  double operator()(int64_t n, int64_t i, int64_t j, int64_t c) const {
    return data[static_cast<size_t>(((n * rows + i) * columns + j) * channels + c)];
  }
};

// y[n, i, j, c] for all of them.
Numbers each_pixel(int64_t rows, int64_t columns, int64_t channels,
                   const std::function<double(int64_t, int64_t, int64_t, int64_t)>& y) {
  Numbers all;
  for (int64_t n = 0; n < kBatch; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t c = 0; c < channels; ++c) all.push_back(y(n, i, j, c));
  return all;
}

Numbers each(const Numbers& a, const Numbers& b, const std::function<double(double, double)>& f) {
  Numbers y;
  for (size_t i = 0; i < a.size(); ++i) y.push_back(f(a[i], b[i]));
  return y;
}

// Window sums of h [3,4,5,2], with the count of what lies inside.
Numbers average_pool_reference(const Given& g) {
  const Image h{g.h, 4, 5, 2};
  return each_pixel(5, 6, 2, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
    double sum = 0;
    int count = 0;
    for (int64_t r = i - 1; r <= i; ++r)
      for (int64_t s = j - 1; s <= j; ++s) {
        if (r < 0 || s < 0 || r >= 4 || s >= 5) continue;
        sum += h(n, r, s, c);
        ++count;
      }
    return sum / count;
  });
}

Numbers max_pool_same_reference(const Given& g) {  // window 3, stride 2: no padding before 4 rows
  const Image h{g.h, 4, 5, 2};
  return each_pixel(2, 3, 2, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
    double most = -1e30;
    for (int64_t r = 2 * i; r < std::min<int64_t>(4, 2 * i + 3); ++r)
      for (int64_t s = std::max<int64_t>(0, 2 * j - 1); s < std::min<int64_t>(5, 2 * j + 2); ++s)
        most = std::max(most, h(n, r, s, c));
    return most;
  });
}

// Scattered: kernel [3,2], stride [3,1], SAME of the result [6,3]: no rows before, no columns.
Numbers conv2d_transpose_reference(const Given& g) {
  const Image h{g.h, 2, 3, 2};
  const Numbers w = g.weight("kind.weight"), bias = g.weight("kind.bias");
  return each_pixel(6, 3, 3, [&](int64_t n, int64_t i, int64_t j, int64_t k) {
    double sum = bias[static_cast<size_t>(k)];
    for (int64_t p = 0; p < 2; ++p)
      for (int64_t q = 0; q < 3; ++q)
        for (int64_t c = 0; c < 2; ++c) {
          const int64_t r = i - 3 * p, s = j - q;
          if (r < 0 || r >= 3 || s < 0 || s >= 2) continue;
          sum += h(n, p, q, c) * w[static_cast<size_t>(((c * 3 + r) * 2 + s) * 3 + k)];
        }
    return sum;
  });
}

Numbers depthwise_reference(const Given& g) {  // kernel [3,3], padding [1,1]
  const Image h{g.h, 4, 5, 2};
  const Numbers w = g.weight("kind.weight"), bias = g.weight("kind.bias");
  return each_pixel(4, 5, 2, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
    double sum = bias[static_cast<size_t>(c)];
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t s = 0; s < 3; ++s) {
        const int64_t y = i + r - 1, x = j + s - 1;
        if (y < 0 || x < 0 || y >= 4 || x >= 5) continue;
        sum += h(n, y, x, c) * w[static_cast<size_t>((c * 3 + r) * 3 + s)];
      }
    return sum;
  });
}

// Tokens [3,4,4], two heads.
Numbers self_attention_reference(const Given& g) {
  constexpr int64_t kTokens = 4, kWidth = 4, kHead = 2;
  const auto projected = [&](const std::string& name) {
    const Numbers w = g.weight("kind." + name + ".weight"), b = g.weight("kind." + name + ".bias");
    Numbers y;
    for (size_t t = 0; t < static_cast<size_t>(kBatch * kTokens); ++t)
      for (size_t k = 0; k < kWidth; ++k) {
        double sum = b[k];
        for (size_t c = 0; c < kWidth; ++c) sum += g.h[t * kWidth + c] * w[k * kWidth + c];
        y.push_back(sum);
      }
    return y;
  };
  const Numbers q = projected("query"), k = projected("key"), v = projected("value");
  const auto at = [](const Numbers& of, int64_t n, int64_t t, int64_t c) {
    return of[static_cast<size_t>((n * kTokens + t) * kWidth + c)];
  };
  return each_pixel(1, kTokens, kWidth, [&](int64_t n, int64_t, int64_t t, int64_t c) {
    const int64_t length = g.lengths[static_cast<size_t>(n)], first = c / kHead * kHead;
    if (t >= length) return 0.0;
    double total = 0, sum = 0;
    for (int64_t j = 0; j < length; ++j) {
      double score = 0;
      for (int64_t d = first; d < first + kHead; ++d) score += at(q, n, t, d) * at(k, n, j, d);
      const double weight = std::exp(score / std::sqrt(double{kHead}));
      total += weight;
      sum += weight * at(v, n, j, c);
    }
    return sum / total;
  });
}

Numbers sigmoid_cross_entropy_reference(const Given& g) {
  double sum = 0;
  int count = 0;
  for (size_t i = 0; i < g.h.size(); ++i) {
    const int target = static_cast<int>(i * 5 % 3) - 1;
    if (target < 0) continue;
    sum += std::log1p(std::exp(target == 1 ? -g.h[i] : g.h[i]));
    ++count;
  }
  return {sum / count};
}

// -log softmax of each row of `columns`, weighted.
double cross_entropy(const Numbers& logits, size_t columns,
                     const std::function<double(size_t row, size_t column)>& target) {
  double sum = 0;
  for (size_t n = 0; n < logits.size() / columns; ++n) {
    double total = 0;
    for (size_t c = 0; c < columns; ++c) total += std::exp(logits[n * columns + c]);
    for (size_t c = 0; c < columns; ++c)
      sum -= target(n, c) * (logits[n * columns + c] - std::log(total));
  }
  return sum / static_cast<double>(logits.size() / columns);
}

double soft_target(size_t row, size_t column, size_t classes) {
  return row % classes == column ? 0.75 : 0.125;
}

Numbers soft_dice_reference(const Given& g) {  // h [3,2,2,3]
  double loss = 0;
  for (size_t n = 0; n < 3; ++n)
    for (size_t c = 0; c < 3; ++c) {
      double both = 1e-6, squares = 1e-6;
      for (size_t p = 0; p < 4; ++p) {
        const double* row = &g.h[(n * 4 + p) * 3];
        const double share =
            std::exp(row[c]) / (std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2]));
        const double target = soft_target(n * 4 + p, c, 3);
        both += 2 * share * target;
        squares += share * share + target * target;
      }
      loss += (1 - both / squares) / 9;
    }
  return {loss};
}

const std::vector<int64_t> kPixels{4, 5, 2};

const std::vector<Case> kCases{
    {"average_pool",
     R"({"window": 2, "stride": 1, "padding": 1})",
     kPixels,
     {"h"},
     {5, 6, 2},
     average_pool_reference},
    {"max_pool",
     R"({"window": 3, "same": true})",
     kPixels,
     {"h"},
     {2, 3, 2},
     max_pool_same_reference},
    {"global_average_pool",
     "",
     kPixels,
     {"h"},
     {2},
     [](const Given& g) {
       Numbers y(6, 0);
       for (size_t i = 0; i < g.h.size(); ++i) y[i / 40 * 2 + i % 2] += g.h[i] / 20;
       return y;
     }},
    {"resize",
     R"({"factor": 3})",
     {2, 3, 2},
     {"h"},
     {6, 9, 2},
     [](const Given& g) {
       const Image h{g.h, 2, 3, 2};
       return each_pixel(6, 9, 2, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
         return h(n, i / 3, j / 3, c);
       });
     }},
    {"centre_crop",
     R"({"rows": 3, "columns": 2})",
     kPixels,
     {"h"},
     {3, 2, 2},
     [](const Given& g) {
       const Image h{g.h, 4, 5, 2};
       return each_pixel(
           3, 2, 2, [&](int64_t n, int64_t i, int64_t j, int64_t c) { return h(n, i, j + 1, c); });
     }},
    {"slice",
     R"({"axis": 2, "begin": 1, "size": 3})",
     kPixels,
     {"h"},
     {4, 3, 2},
     [](const Given& g) {
       const Image h{g.h, 4, 5, 2};
       return each_pixel(
           4, 3, 2, [&](int64_t n, int64_t i, int64_t j, int64_t c) { return h(n, i, j + 1, c); });
     }},
    {"concat",
     R"({"axis": 1})",
     kPixels,
     {"h", "x", "h"},
     {12, 5, 2},
     [](const Given& g) {
       const Image h{g.h, 4, 5, 2}, x{g.x, 4, 5, 2};
       return each_pixel(12, 5, 2, [&](int64_t n, int64_t i, int64_t j, int64_t c) {
         return (i / 4 == 1 ? x : h)(n, i % 4, j, c);
       });
     }},
    {"reshape",
     R"({"shape": [-1, 2, 20]})",
     kPixels,
     {"h"},
     {2, 20},
     [](const Given& g) { return g.h; }},
    {"flatten", "", kPixels, {"h"}, {40}, [](const Given& g) { return g.h; }},
    {"scale",
     R"({"factor": -2.5, "offset": 0.5})",
     kPixels,
     {"h"},
     kPixels,
     [](const Given& g) { return each(g.h, g.h, [](double a, double) { return 0.5 - 2.5 * a; }); }},
    {"add",
     "",
     kPixels,
     {"h", "x", "h"},
     kPixels,
     [](const Given& g) { return each(g.h, g.x, [](double a, double b) { return 2 * a + b; }); }},
    {"subtract",
     "",
     kPixels,
     {"h", "x"},
     kPixels,
     [](const Given& g) { return each(g.h, g.x, [](double a, double b) { return a - b; }); }},
    {"multiply",
     "",
     kPixels,
     {"h", "x", "h"},
     kPixels,
     [](const Given& g) { return each(g.h, g.x, [](double a, double b) { return a * b * a; }); }},
    {"activation",
     R"({"function": "swish"})",
     kPixels,
     {"h"},
     kPixels,
     [](const Given& g) {
       return each(g.h, g.h, [](double a, double) { return a / (1 + std::exp(-a)); });
     }},
    {"dropout", R"({"rate": 0})", kPixels, {"h"}, kPixels, [](const Given& g) { return g.h; }},
    {"depthwise_conv2d", R"({"padding": [1, 1]})", kPixels, {"h"}, kPixels, depthwise_reference},
    {"conv2d_transpose",
     R"({"channels": 3, "kernel": [3, 2], "stride": [3, 1], "bias_init": 0.5})",
     {2, 3, 2},
     {"h"},
     {6, 3, 3},
     conv2d_transpose_reference},
    {"layer_norm",
     R"({"epsilon": 0.125})",
     {2, 4},
     {"h"},
     {2, 4},
     [](const Given& g) {
       Numbers y;
       for (size_t row = 0; row < 6; ++row) {
         double mean = 0, variance = 0;
         for (size_t c = 0; c < 4; ++c) mean += g.h[row * 4 + c] / 4;
         for (size_t c = 0; c < 4; ++c) variance += std::pow(g.h[row * 4 + c] - mean, 2) / 4;
         for (size_t c = 0; c < 4; ++c)
           y.push_back((g.h[row * 4 + c] - mean) / std::sqrt(variance + 0.125));
       }
       return y;
     }},
    {"position_embedding",
     R"({"rows": 5})",
     {4, 4},
     {"h"},
     {4, 4},
     [](const Given& g) {
       const Numbers w = g.weight("kind.weight");
       Numbers y = g.h;
       for (size_t i = 0; i < y.size(); ++i) y[i] += w[i % 16];
       return y;
     }},
    {"self_attention",
     R"({"heads": 2})",
     {4, 4},
     {"h", "length"},
     {4, 4},
     self_attention_reference},
    {"softmax_cross_entropy",
     "",
     {3},
     {"h", "target"},
     {},
     [](const Given& g) {
       constexpr size_t kLabels[] = {1, 0, 2};
       return Numbers{
           cross_entropy(g.h, 3, [&](size_t n, size_t c) { return kLabels[n] == c ? 1.0 : 0.0; })};
     },
     R"({"dtype": "i32", "label": true, "range": [0, 3]})"},
    {"softmax_cross_entropy",
     R"({"mean": "counted"})",
     {3},
     {"h", "target"},
     {},
     [](const Given& g) {  // two of three rows count
       constexpr int kLabels[] = {1, -1, 2};
       const double mean = cross_entropy(g.h, 3, [&](size_t n, size_t c) {
         return kLabels[n] == static_cast<int>(c) ? 1.0 : 0.0;
       });
       return Numbers{mean * 3 / 2};
     },
     R"({"dtype": "i32", "label": true, "range": [0, 3], "padding": -1})"},
    {"soft_target_cross_entropy",
     "",
     {2, 2, 3},
     {"h", "target"},
     {},
     [](const Given& g) {
       return Numbers{
           cross_entropy(g.h, 3, [](size_t n, size_t c) { return soft_target(n, c, 3); })};
     },
     R"({"label": true, "shape": [2, 2, 3]})"},
    {"soft_dice",
     "",
     {2, 2, 3},
     {"h", "target"},
     {},
     soft_dice_reference,
     R"({"label": true, "shape": [2, 2, 3]})"},
    {"sigmoid_cross_entropy",
     "",
     {4},
     {"h", "target"},
     {},
     sigmoid_cross_entropy_reference,
     R"({"dtype": "i32", "label": true, "shape": [4], "range": [0, 2], "padding": -1})"},
};

INSTANTIATE_TEST_SUITE_P(All, LayerKinds, testing::ValuesIn(kCases),
                         [](const auto& param) { return cat(param.param.kind, param.index); });

// Those that have no case above are the built-in models' (network_test.cpp), or below.
TEST(LayerKindTable, EveryKindIsTested) {
  const std::set<std::string_view> elsewhere{"conv2d",        "batch_norm",   "linear",
                                             "embedding",     "mean",         "top_k_correct",
                                             "count_targets", "probabilities"};
  for (const LayerKind* kind : layer_kinds()) {
    const bool here =
        std::ranges::any_of(kCases, [&](const Case& c) { return c.kind == kind->text.name; });
    EXPECT_TRUE(here || elsewhere.contains(kind->text.name)) << kind->text.name;
  }
}

}  // namespace
}  // namespace assay::nn
