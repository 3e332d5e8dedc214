// assay-predict: labels pictures with the model of a checkpoint.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <opencv2/imgproc.hpp>
#include <optional>

#include "tools/common/abi.h"
#include "tools/common/boxes.h"
#include "tools/common/class_names.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/predict/prepare.h"

namespace assay::tools {
namespace {

constexpr char kFooter[] =
    R"(A model that classifies prints a line for each picture: its name, then the likeliest classes with their
probabilities. A model that labels pixels writes a mask for each picture, of the picture's size: class 0 is
black, the last class is white. --to names a folder (PNG files) or a .tif file (a page each). A model that finds
objects prints a line for each picture: its name, then of each object its class, its probability and left, top,
width and height in pixels; with --to it also draws them on copies of the pictures.

How pixels become the model's numbers stands in checkpoints that recipe-run wrote. For other checkpoints say it
with --prepare, in the words of a loader's transform: "scale", "offset", "mean", "stddev"; "resize_shorter", and
the middle of the picture is taken; "size" with "padded", and zeros surround the picture; "size" as [rows, columns] of
what a model sees that finds objects. Without any of it pixels are divided by 255, and the picture is resized to what the
model takes.

Exit codes: 0 done; 2 wrong usage; 4 the device cannot be used; 5 it failed; 6 files are missing or damaged;
75 interrupted.

Examples:
  assay-predict runs/RUN/trials/seed-0001/checkpoint-3744 photo.png more/
  assay-predict unet.ckpt slices.tif --to masks.tif
  assay-predict detector.ckpt street/ --to found --least 0.5 --names data/coco
  assay-predict cats.ckpt *.jpg --top 3 --names data/imagenet --prepare '{"resize_shorter": 256, "scale": 1,
                "mean": [123.68, 116.78, 103.94]}')";

constexpr char kPreparationKey[] = "preparation";  // of a checkpoint's metadata

struct Request {
  std::string checkpoint, to, prepare, names, output, device = "cpu";
  std::vector<std::string> pictures;
  int top = 1, threads = 0;
  double least = 0.3;
  bool quiet = false;
};

volatile std::sig_atomic_t interrupted = 0;
void remember_interrupt(int) { interrupted = 1; }

assay_device_id device_of(const std::string& name) {
  if (name == "cpu") return {ASSAY_DEVICE_CPU, 0};
  if (name.size() == 6 && name.starts_with("cuda:") && name[5] >= '0' && name[5] <= '9')
    return {ASSAY_DEVICE_CUDA, name[5] - '0'};
  throw Error(Exit::kUsage, fmt::format("there is no device '{}'", name), "cpu, or cuda:0");
}

google::protobuf::Struct inspect(const std::string& checkpoint) {
  assay_report* report = nullptr;
  call(Exit::kDataMismatch, assay_checkpoint_inspect, text(checkpoint), &report);
  auto content = parse(Report(report));
  if (!has(content, "model_name"))
    throw Error(Exit::kDataMismatch,
                fmt::format("'{}' does not say of which model it is", checkpoint),
                "checkpoints say it that are saved with the trainer's state; weights alone and "
                "safetensors files do not");
  return content;
}

enum class Answer { kClasses, kMask, kBoxes };

// A model with its weights, and what it takes and gives.
class Labeller {
 public:
  Labeller(const Request& request, const google::protobuf::Struct& content,
           const Preparation& preparation) {
    const assay_device_id device = device_of(request.device);
    assay_context_options options{};
    options.struct_size = sizeof options;
    options.n_threads = request.threads;
    assay_context* context = nullptr;
    call(Exit::kNotRun, assay_context_create, &options, nullptr, &device, size_t{1}, &context);
    context_.reset(context);
    const std::string name = text_of(content, "model_name");
    const std::string config = text_of(content, "model_config");
    assay_model* model = nullptr;
    call(Exit::kDataMismatch, assay_model_named, context, text(name), text(config), &model);
    model_.reset(model);
    call(Exit::kDataMismatch, assay_model_load_weights, model, text(request.checkpoint),
         text("checkpoint"), text(""), uint32_t{0}, nullptr);
    const std::string size =
        preparation.detector_size.empty()
            ? ""
            : fmt::format(R"(, "image_size": [{}])", fmt::join(preparation.detector_size, ", "));
    assay_predictor* predictor = nullptr;
    // A size of the user's is all that can be wrong usage here.
    const bool is_users = !size.empty() && !request.prepare.empty();
    call(is_users ? Exit::kUsage : Exit::kCrashed, assay_predictor_create, model,
         text(fmt::format(R"({{"max_batch": 1{}}})", size)), &predictor);
    predictor_.reset(predictor);
    assay_slot* slot = nullptr;
    call(Exit::kCrashed, assay_slot_create, predictor, &slot);
    slot_.reset(slot);
    describe(name, name == "graph" ? kind_of_outputs(config) : std::map<std::string, std::string>(),
             request.output);
  }

  Answer answer() const {
    if (finds_) return Answer::kBoxes;
    return output().size() == 3 ? Answer::kMask : Answer::kClasses;
  }
  SampleShape input() const { return {input_[0], input_[1], input_[2]}; }
  // Rows and columns of what is labelled, then classes; of a classifier the classes alone.
  const std::vector<int>& output() const { return outputs_[scores_].shape; }

  // Scores of the classes, of every pixel if it labels pixels.
  std::vector<float> scores(std::vector<float>& sample) {
    return read<float>(run(sample, scores_ + 1), scores_);
  }
  // Whether scores are probabilities, not logits.
  bool gives_probabilities() const { return outputs_[scores_].is_probabilities; }

  DetectorOutput boxes(std::vector<float>& sample) {
    const std::vector<Tensor> out = run(sample, 3);
    return {read<float>(out, 0), read<float>(out, 1), read<int32_t>(out, 2)};
  }

 private:
  struct Output {
    std::string name;
    std::vector<int> shape;
    bool is_probabilities = false;
    bool may_label() const { return shape.size() == 1 || shape.size() == 3; }
  };

  void describe(const std::string& name, const std::map<std::string, std::string>& kinds,
                const std::string& chosen) {
    assay_report* report = nullptr;
    call(Exit::kCrashed, assay_predictor_report, predictor_.get(), &report);
    const auto described = parse(Report(report));
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
  void choose_scores(const std::string& chosen, const std::string& names) {
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

  // Of a network described by its host: which kind of layer gives each output.
  static std::map<std::string, std::string> kind_of_outputs(const std::string& config) {
    const google::protobuf::Struct network = parse(config);
    std::map<std::string, std::string> of_layer, of_output;
    for (const auto& layer : at(network, "layers").list_value().values())
      of_layer[text_of(layer.struct_value(), "name")] = text_of(layer.struct_value(), "kind");
    for (const auto& output : at(network, "outputs").list_value().values())
      of_output[text_of(output.struct_value(), "name")] =
          of_layer[text_of(output.struct_value(), "value")];
    return of_output;
  }

  static std::vector<int> shape_of(const google::protobuf::Struct& row) {
    std::vector<int> out;
    for (const auto& side : at(row, "sample_shape").list_value().values())
      out.push_back(static_cast<int>(side.number_value()));
    return out;
  }

  // The first `count` outputs.
  std::vector<Tensor> run(std::vector<float>& sample, size_t count) {
    const int64_t shape[4] = {1, input_[0], input_[1], input_[2]};
    assay_tensor* borrowed = nullptr;
    call(Exit::kCrashed, assay_tensor_borrow, context_.get(), static_cast<void*>(sample.data()),
         sample.size() * sizeof(float), assay_dtype{ASSAY_F32}, static_cast<const int64_t*>(shape),
         int32_t{4}, nullptr, uintptr_t{0}, &borrowed);
    const Tensor input(borrowed);
    const assay_tensor* batch[] = {input.get()};
    std::vector<assay_tensor*> out(count, nullptr);
    call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), batch, size_t{1},
         out.data(), out.size());
    return {out.begin(), out.end()};
  }

  template <class T>
  std::vector<T> read(const std::vector<Tensor>& out, size_t i) const {
    size_t count = 1;
    for (const int side : outputs_[i].shape) count *= static_cast<size_t>(side);
    std::vector<T> values(count);
    call(Exit::kCrashed, assay_tensor_read, out[i].get(), static_cast<void*>(values.data()),
         count * sizeof(T));
    return values;
  }

  Context context_;
  Model model_;
  Predictor predictor_;
  Slot slot_;
  std::vector<int> input_;
  std::vector<Output> outputs_;
  size_t scores_ = 0;   // which of them labels
  bool finds_ = false;  // objects
};

// What the checkpoint's writer left, unless the user says it.
Preparation preparation_of(const Request& request, const google::protobuf::Struct& content) {
  if (!request.prepare.empty()) return parse_preparation(request.prepare);
  for (const auto& value : at(content, "metadata").list_value().values()) {
    const auto& entry = value.struct_value();
    if (text_of(entry, "key") == kPreparationKey) return parse_preparation(text_of(entry, "value"));
  }
  return {};
}

// Of a data set's manifest, or a line each of a text file. None: classes go by their numbers.
std::vector<std::string> class_names(const std::string& source) {
  std::vector<std::string> names;
  if (source.empty()) return names;
  if (std::ifstream file(source); file && !std::filesystem::is_directory(source)) {
    for (std::string line; std::getline(file, line);) names.push_back(line);
    while (!names.empty() && names.back().empty()) names.pop_back();
    return names;
  }
  return class_names_of(source);
}

std::vector<double> probabilities_of(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> powers;
  double sum = 0;
  for (const float logit : logits) sum += powers.emplace_back(std::exp(logit - largest));
  for (double& power : powers) power /= sum;
  return powers;
}

// The likeliest classes of one picture with their probabilities.
std::string class_line(const std::vector<double>& scores, const std::vector<std::string>& names,
                       int top) {
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::string line;
  for (size_t i = 0; i < std::min(order.size(), static_cast<size_t>(top)); ++i)
    line += fmt::format("\t{}\t{:.4f}", class_name(names, order[i]), scores[order[i]]);
  return line;
}

// The likeliest class of every pixel as a grey level, in the picture's own size.
cv::Mat mask_of(const std::vector<float>& scores, const std::vector<int>& shape,
                const cv::Size& size) {
  const int classes = shape[2];
  cv::Mat mask(shape[0], shape[1], CV_8U), out;
  const float* at = scores.data();
  for (int i = 0; i < shape[0] * shape[1]; ++i, at += classes) {
    const auto best = std::max_element(at, at + classes) - at;
    mask.data[i] = static_cast<uint8_t>(255 * best / (classes - 1));
  }
  cv::resize(mask, out, size, 0, 0, cv::INTER_NEAREST);
  return out;
}

// Answers about picture after picture.
class Answers {
 public:
  Answers(const Request& request, Labeller& labeller, const Preparation& preparation)
      : request_(request),
        labeller_(labeller),
        preparation_(preparation),
        names_(class_names(request.names)) {
    const Answer answer = labeller.answer();
    if (answer == Answer::kMask && request.to.empty())
      throw Error(Exit::kUsage, "this model labels pixels: say with --to where its masks shall go",
                  "a folder for PNG files, or one .tif file");
    if (answer != Answer::kClasses) {
      if (!request.to.empty()) pictures_.emplace(request.to);
      return;
    }
    if (!request.to.empty())
      throw Error(Exit::kUsage,
                  "this model tells classes, which are printed: there is nothing "
                  "that --to could hold");
    const auto classes = static_cast<size_t>(labeller.output()[0]);
    if (!names_.empty() && names_.size() != classes)
      throw Error(Exit::kUsage, fmt::format("'{}' names {} classes, the model has {}",
                                            request.names, names_.size(), classes));
  }

  void add(const Page& page) {
    if (labeller_.answer() == Answer::kBoxes) return add_boxes(page);
    std::vector<float> sample = prepare(page, preparation_, labeller_.input());
    const std::vector<float> scores = labeller_.scores(sample);
    if (labeller_.answer() == Answer::kMask) {
      pictures_->add(page.name, mask_of(scores, labeller_.output(), page.picture.size()));
    } else {
      const std::vector<double> found = labeller_.gives_probabilities()
                                            ? std::vector<double>(scores.begin(), scores.end())
                                            : probabilities_of(scores);
      fmt::print("{}{}\n", page.name, class_line(found, names_, request_.top));
    }
  }

  void finish() {
    if (!pictures_) return;
    pictures_->finish();
    fmt::print("{}\n", request_.to);
  }

 private:
  void add_boxes(const Page& page) {
    std::vector<float> sample = prepare_for_detector(page, preparation_, labeller_.input());
    const auto boxes =
        found_boxes(labeller_.boxes(sample), static_cast<float>(request_.least),
                    detector_scale(page.picture.size(), labeller_.input()), page.picture.size());
    const auto name = [&](size_t of_class) { return class_name(names_, of_class); };
    fmt::print("{}{}\n", page.name, box_line(boxes, name));
    if (pictures_) pictures_->add(page.name, drawn(page.picture, boxes, name));
  }

  const Request& request_;
  Labeller& labeller_;
  const Preparation& preparation_;
  std::vector<std::string> names_;
  std::optional<PictureWriter> pictures_;
};

Exit label(const Request& request) {
  const auto files = picture_files(request.pictures);
  const auto content = inspect(request.checkpoint);
  const Preparation preparation = preparation_of(request, content);
  Labeller labeller(request, content, preparation);
  Answers answers(request, labeller, preparation);
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, request.quiet);
  progress.begin("labelling");
  size_t done = 0, pages = 0, left_out = 0;
  // The pictures of one file among many; a broken one is named, and the others are labelled.
  const auto read = [&](const std::filesystem::path& file) -> std::vector<Page> {
    try {
      return read_pages(file);
    } catch (const Error& error) {
      if (files.size() == 1) throw;
      progress.note(error.what());
      ++left_out;
      return {};
    }
  };
  for (const std::filesystem::path& file : files) {
    for (const Page& page : read(file)) {
      if (interrupted != 0) throw Error(Exit::kInterrupted, "stopped");
      answers.add(page);
      ++pages;
    }
    progress.update(static_cast<double>(++done) / static_cast<double>(files.size()), file.string());
  }
  if (!request.quiet)
    progress.end(fmt::format("{} {}", pages, pages == 1 ? "picture" : "pictures"));
  if (pages > 0) answers.finish();
  if (left_out > 0)
    throw Error(Exit::kDataMismatch,
                fmt::format("{} of {} files could not be read; all others are labelled", left_out,
                            files.size()));
  return Exit::kOk;
}

Exit run(int argc, const char* const* argv) {
  CLI::App app("Labels pictures with the model of a checkpoint: classes, masks or boxes.",
               "assay-predict");
  Request request;
  app.add_option("checkpoint", request.checkpoint, "checkpoint file with the model's weights")
      ->required();
  app.add_option("pictures", request.pictures, "picture files, or folders of them")->required();
  app.add_option("--to", request.to, "masks and boxes: folder to fill, or .tif file to write");
  app.add_option("--top", request.top, "classes: how many of the likeliest to print")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--least", request.least, "boxes: the least probability of those to tell and draw")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--names", request.names,
                 "names of the classes: a text file with a line each, or the folder of a data set");
  app.add_option("--output", request.output,
                 "which output holds the scores of classes; default: \"logits\", or the only one");
  app.add_option("--prepare", request.prepare, "how pixels become numbers, as JSON; see below");
  app.add_option("--device", request.device, "what computes: cpu, cuda:0, ...")
      ->capture_default_str();
  app.add_option("--threads", request.threads, "compute threads; 0 = every core")
      ->check(CLI::Range(0, 4096));
  app.add_flag("-q,--quiet", request.quiet, "no progress");
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  std::signal(SIGINT, remember_interrupt);
  std::signal(SIGTERM, remember_interrupt);
  return label(request);
}

}  // namespace
}  // namespace assay::tools

int main(int argc, char** argv) {
  return assay::tools::run_program("assay-predict", assay::tools::run, argc, argv);
}
