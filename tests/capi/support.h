// Shared by the tests of the C interface: calls, owned handles, a small model with data.
#pragma once

#include <assay/assay_data.h>
#include <assay/assay_graph.h>
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace assay::test {

inline assay_str text(std::string_view value) { return {value.data(), value.size()}; }
inline std::string_view string_view(assay_str value) { return {value.data, value.size}; }
inline std::string string(assay_str value) { return std::string(string_view(value)); }

// ---- Calls ----

struct Outcome {
  assay_status status = ASSAY_OK;
  std::string message, op_path, argument, expected, actual, hint;
  int32_t domain = 0;
  int64_t native_code = 0;
  uint32_t flags = 0;
};

// Calls f(args..., &err) and takes the error apart; success must leave no error.
template <class... P, class... A>
Outcome call(assay_status (*f)(P...), A... args) {
  int anything = 0;
  auto* error = reinterpret_cast<assay_error*>(&anything);
  Outcome outcome;
  outcome.status = f(args..., &error);
  EXPECT_EQ(outcome.status == ASSAY_OK, error == nullptr);
  if (error == nullptr || outcome.status == ASSAY_OK) return outcome;
  assay_error_info info{.struct_size = sizeof info};
  EXPECT_EQ(assay_error_get(error, &info), ASSAY_OK);
  EXPECT_EQ(info.code, outcome.status);
  EXPECT_GT(info.message.size, 0u);
  for (const assay_str& each :
       {info.message, info.op_path, info.argument, info.expected, info.actual, info.hint}) {
    EXPECT_TRUE(std::ranges::none_of(string_view(each), [](char c) { return c >= 0 && c < ' '; }));
  }
  outcome.message = string(info.message);
  outcome.op_path = string(info.op_path);
  outcome.argument = string(info.argument);
  outcome.expected = string(info.expected);
  outcome.actual = string(info.actual);
  outcome.hint = string(info.hint);
  outcome.domain = info.domain;
  outcome.native_code = info.native_code;
  outcome.flags = info.flags;
  assay_error_free(error);
  return outcome;
}

template <class... P, class... A>
void ok(assay_status (*f)(P...), A... args) {
  const Outcome outcome = call(f, args...);
  EXPECT_EQ(outcome.status, ASSAY_OK) << outcome.message;
}

// Expects this status and returns the message.
template <class... P, class... A>
std::string fails(assay_status status, assay_status (*f)(P...), A... args) {
  const Outcome outcome = call(f, args...);
  EXPECT_EQ(outcome.status, status) << outcome.message;
  return outcome.message;
}

// ---- Handles ----

struct Free {
  void operator()(assay_context* handle) const { assay_context_free(handle); }
  void operator()(assay_graph* handle) const { assay_graph_free(handle); }
  void operator()(assay_model* handle) const { assay_model_free(handle); }
  void operator()(assay_trainer* handle) const { assay_trainer_free(handle); }
  void operator()(assay_predictor* handle) const { assay_predictor_free(handle); }
  void operator()(assay_slot* handle) const { assay_slot_free(handle); }
  void operator()(assay_tensor* handle) const { assay_tensor_release(handle); }
  void operator()(assay_loader* handle) const { assay_loader_free(handle); }
  void operator()(assay_report* handle) const { assay_report_free(handle); }
  void operator()(assay_text* handle) const { assay_text_free(handle); }
  void operator()(assay_text_question* handle) const { assay_text_question_free(handle); }
  void operator()(assay_text_squad* handle) const { assay_text_squad_free(handle); }
  void operator()(assay_detections* handle) const { assay_detections_free(handle); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// Calls f(args..., &out, &err), which must succeed.
template <class T, class... P, class... A>
Owned<T> make(assay_status (*f)(P...), A... args) {
  T* out = nullptr;
  ok(f, args..., &out);
  EXPECT_NE(out, nullptr);
  return Owned<T>(out);
}

// The report that f(args..., &out, &err) makes, as parsed JSON.
template <class... P, class... A>
google::protobuf::Struct report(assay_status (*f)(P...), A... args) {
  const auto owned = make<assay_report>(f, args...);
  google::protobuf::Struct parsed;
  if (owned == nullptr) return parsed;
  const auto status =
      google::protobuf::util::JsonStringToMessage(string(assay_report_text(owned.get())), &parsed);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return parsed;
}
inline const google::protobuf::Value& at(const google::protobuf::Struct& object,
                                         const std::string& key) {
  const auto found = object.fields().find(key);
  EXPECT_NE(found, object.fields().end()) << "no key " << key;
  static const google::protobuf::Value kNothing;
  return found == object.fields().end() ? kNothing : found->second;
}
inline double number(const google::protobuf::Struct& object, const std::string& key) {
  return at(object, key).number_value();
}

inline constexpr assay_device_id kCpu = {ASSAY_DEVICE_CPU, 0};

// Where models are: capi_device_test runs some of these tests on another device.
inline assay_device_id device_under_test = kCpu;
inline bool on_cpu() { return device_under_test.kind == ASSAY_DEVICE_CPU; }

inline Owned<assay_context> make_context(assay_device_id device = device_under_test) {
  return make<assay_context>(assay_context_create, nullptr, nullptr, &device, size_t{1});
}

inline assay_tensor_info info_of(const assay_tensor* tensor) {
  assay_tensor_info info{.struct_size = sizeof info};
  ok(assay_tensor_get_info, tensor, &info);
  return info;
}

// The elements, wherever they are.
inline std::vector<std::byte> elements_of(const assay_tensor* tensor) {
  std::vector<std::byte> bytes(info_of(tensor).bytes);
  ok(assay_tensor_read, tensor, bytes.data(), bytes.size());
  return bytes;
}
inline std::vector<float> floats_of(const assay_tensor* tensor) {
  const std::vector<std::byte> bytes = elements_of(tensor);
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// ---- A small model with data ----

inline constexpr std::string_view kSmallCnn =
    R"({"image": [8, 8, 1], "classes": 3, "conv": [4], "kernel": 3, "hidden": [0]})";
inline constexpr std::string_view kSgd = R"({"optimizer": {"name": "sgd", "momentum": 0.9}})";
inline constexpr int64_t kBatch = 6;

// A batch of that model: images from a counter, labels 0, 1, 2, 0, ...
class SmallBatch {
 public:
  explicit SmallBatch(const assay_context* context, unsigned seed = 1)
      : images_(kBatch * 64), labels_(kBatch) {
    for (size_t i = 0; i < images_.size(); ++i) {
      images_[i] = static_cast<float>((i * 7919 + seed * 104729) % 1000) / 1000.0f;
    }
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<int32_t>((i + seed) % 3);
    const int64_t image_shape[] = {kBatch, 8, 8, 1};
    image_ =
        make<assay_tensor>(assay_tensor_borrow, context, static_cast<void*>(images_.data()),
                           images_.size() * sizeof(float), ASSAY_F32, image_shape, 4, nullptr, 0);
    label_ =
        make<assay_tensor>(assay_tensor_borrow, context, static_cast<void*>(labels_.data()),
                           labels_.size() * sizeof(int32_t), ASSAY_I32, image_shape, 1, nullptr, 0);
    tensors_[0] = image_.get();
    tensors_[1] = label_.get();
  }
  const assay_tensor* const* tensors() const { return tensors_; }
  std::vector<float>& images() { return images_; }
  std::vector<int32_t>& labels() { return labels_; }

 private:
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  Owned<assay_tensor> image_, label_;
  const assay_tensor* tensors_[2];
};

class SmallModel : public testing::Test {
 protected:
  Owned<assay_model> make_model() const {
    return make<assay_model>(assay_model_named, context.get(), text("cnn"), text(kSmallCnn));
  }
  Owned<assay_trainer> make_trainer(assay_model* of, std::string_view config = kSgd) const {
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = kBatch, .seed = 5, .learning_rate = 0.05};
    return make<assay_trainer>(assay_trainer_create, of, &options, text(config));
  }
  assay_step_info step(assay_trainer* trainer, const SmallBatch& with) const {
    assay_step_info info{.struct_size = sizeof info};
    ok(assay_trainer_step, trainer, with.tensors(), size_t{2}, &info);
    return info;
  }
  std::vector<std::byte> bits(const assay_model* of, std::string_view name,
                              int32_t kind = ASSAY_KIND_VALUE) const {
    return elements_of(make<assay_tensor>(assay_model_tensor, of, text(name), kind).get());
  }

  Owned<assay_context> context = make_context();
  SmallBatch batch{context.get()};
};

// ---- Programs and files ----

struct Printed {
  int code;
  std::string all;  // of both streams
};
// What a command of the shell prints.
Printed printed_by(const std::string& command);

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace assay::test
