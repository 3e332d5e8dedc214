#include "tools/predict/labeller.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace assay::tools {
namespace {

// Of a network described by its host: which kind of layer gives each output.
std::map<std::string, std::string> kind_of_outputs(const std::string& config) {
  const google::protobuf::Struct network = parse(config);
  std::map<std::string, std::string> of_layer, of_output;
  for (const auto& layer : at(network, "layers").list_value().values())
    of_layer[text_of(layer.struct_value(), "name")] = text_of(layer.struct_value(), "kind");
  for (const auto& output : at(network, "outputs").list_value().values())
    of_output[text_of(output.struct_value(), "name")] =
        of_layer[text_of(output.struct_value(), "value")];
  return of_output;
}

std::vector<int> shape_of(const google::protobuf::Struct& row) {
  std::vector<int> out;
  for (const auto& side : at(row, "sample_shape").list_value().values())
    out.push_back(static_cast<int>(side.number_value()));
  return out;
}

Context context_of(const ModelChoice& choice) {
  const assay_device_id device = device_of(choice.device);
  assay_context_options options{};
  options.struct_size = sizeof options;
  options.n_threads = choice.threads;
  return made<Context>(Exit::kNotRun, assay_context_create, &options, nullptr, &device, size_t{1});
}

}  // namespace

Labeller::Labeller(const ModelChoice& choice, const google::protobuf::Struct& content,
                   const std::vector<int>& detector_size, bool size_is_users)
    : context_(context_of(choice)) {
  const std::string name = text_of(content, "model_name");
  const std::string config = text_of(content, "model_config");
  model_ =
      made<Model>(Exit::kDataMismatch, assay_model_named, context_.get(), text(name), text(config));
  call(Exit::kDataMismatch, assay_model_load_weights, model_.get(), text(choice.checkpoint),
       text("checkpoint"), text(""), uint32_t{0}, nullptr);
  const std::string size = detector_size.empty() ? ""
                                                 : fmt::format(R"(, "image_size": [{}])",
                                                               fmt::join(detector_size, ", "));
  // A size of the user's is all that can be wrong usage here.
  const bool is_users = !size.empty() && size_is_users;
  predictor_ = made<Predictor>(is_users ? Exit::kUsage : Exit::kCrashed, assay_predictor_create,
                               model_.get(), text(fmt::format(R"({{"max_batch": 1{}}})", size)));
  slot_ = made<Slot>(Exit::kCrashed, assay_slot_create, predictor_.get());
  describe(name, name == "graph" ? kind_of_outputs(config) : std::map<std::string, std::string>(),
           choice.output);
}

void Labeller::describe(const std::string& name, const std::map<std::string, std::string>& kinds,
                        const std::string& chosen) {
  const auto described = report_of(Exit::kCrashed, assay_predictor_report, predictor_.get());
  std::string names;
  for (const auto& output : at(described, "outputs").list_value().values()) {
    const std::string called = text_of(output.struct_value(), "name");
    const auto kind = kinds.find(called);
    outputs_.push_back(
        {called, shape_of(output.struct_value()),
         kind == kinds.end() ? called == "probabilities" : kind->second == "probabilities"});
    names += called + " ";
  }
  const auto& inputs = at(described, "inputs").list_value();
  if (!inputs.values().empty()) input_ = shape_of(inputs.values(0).struct_value());
  finds_ = names == "boxes scores classes ";
  const bool labels = std::any_of(outputs_.begin(), outputs_.end(),
                                  [](const Output& output) { return output.may_label(); });
  if (input_.size() != 3 || !(finds_ || labels))
    throw Error(Exit::kUsage, fmt::format("model '{}' does not label pictures: it takes [{}] and "
                                          "gives {}",
                                          name, fmt::join(input_, ", "), names));
  if (!finds_) return choose_scores(chosen, names);
  if (!chosen.empty())
    throw Error(Exit::kUsage,
                "this model finds objects: there is no choice that --output could make");
}

// The one asked for, or "logits", or the only one that could be scores.
void Labeller::choose_scores(const std::string& chosen, const std::string& names) {
  const std::string wanted = chosen.empty() ? "logits" : chosen;
  std::vector<size_t> possible;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].may_label()) continue;
    if (outputs_[i].name == wanted) return void(scores_ = i);
    possible.push_back(i);
  }
  if (!chosen.empty())
    throw Error(Exit::kUsage, fmt::format("no output '{}' holds scores of classes", chosen),
                "the model gives " + names);
  if (possible.size() > 1)
    throw Error(Exit::kUsage, "the model gives " + names + "and none of them is called logits",
                "say with --output which one holds the scores of classes");
  scores_ = possible[0];
}

// The first `count` outputs.
std::vector<Tensor> Labeller::run(std::vector<float>& sample, size_t count) {
  const int64_t shape[4] = {1, input_[0], input_[1], input_[2]};
  const auto input = made<Tensor>(Exit::kCrashed, assay_tensor_borrow, context_.get(),
                                  static_cast<void*>(sample.data()), sample.size() * sizeof(float),
                                  assay_dtype{ASSAY_F32}, static_cast<const int64_t*>(shape),
                                  int32_t{4}, nullptr, uintptr_t{0});
  const assay_tensor* batch[] = {input.get()};
  std::vector<assay_tensor*> out(count, nullptr);
  call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), batch, size_t{1},
       out.data(), out.size());
  return {out.begin(), out.end()};
}

template <class T>
std::vector<T> Labeller::read(const std::vector<Tensor>& out, size_t i) const {
  size_t count = 1;
  for (const int side : outputs_[i].shape) count *= static_cast<size_t>(side);
  std::vector<T> values(count);
  call(Exit::kCrashed, assay_tensor_read, out[i].get(), static_cast<void*>(values.data()),
       count * sizeof(T));
  return values;
}

std::vector<float> Labeller::scores(std::vector<float>& sample) {
  return read<float>(run(sample, scores_ + 1), scores_);
}

DetectorOutput Labeller::boxes(std::vector<float>& sample) {
  const std::vector<Tensor> out = run(sample, 3);
  return {read<float>(out, 0), read<float>(out, 1), read<int32_t>(out, 2)};
}

}  // namespace assay::tools
