// assay-predict: labels pictures with the model of a checkpoint.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <opencv2/imgproc.hpp>
#include <optional>

#include "tools/common/abi.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/predict/prepare.h"

namespace assay::tools {
namespace {

constexpr char kFooter[] =
    R"(A model that classifies prints a line for each picture: its name, then the likeliest classes with their
probabilities. A model that labels pixels writes a mask for each picture, of the picture's size: class 0 is
black, the last class is white. --to names a folder (PNG files) or a .tif file (a page each).

How pixels become the model's numbers stands in checkpoints that recipe-run wrote. For other checkpoints say it
with --prepare, in the words of a loader's transform: "scale", "offset", "mean", "stddev"; "resize_shorter", and
the middle of the picture is taken; "size" with "padded", and zeros surround the picture. Without any of it pixels are
divided by 255, and the picture is resized to what the model takes.

Exit codes: 0 done; 2 wrong usage; 4 the device cannot be used; 5 it failed; 6 files are missing or damaged;
75 interrupted.

Examples:
  assay-predict runs/RUN/trials/seed-0001/checkpoint-1872 photo.png more/
  assay-predict unet.ckpt slices.tif --to masks.tif
  assay-predict cats.ckpt *.jpg --top 3 --names data/imagenet --prepare '{"resize_shorter": 256, "scale": 1,
                "mean": [123.68, 116.78, 103.94]}')";

constexpr char kPreparationKey[] = "preparation";  // of a checkpoint's metadata

struct Request {
  std::string checkpoint, to, prepare, names, device = "cpu";
  std::vector<std::string> pictures;
  int top = 1, threads = 0;
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
  const auto content = parse(Report(report));
  if (!has(content, "model_name"))
    throw Error(Exit::kDataMismatch,
                fmt::format("'{}' does not say of which model it is", checkpoint),
                "weights of a checkpoint are needed, not of a safetensors file");
  return content;
}

// A model with its weights, and what it takes and gives.
class Labeller {
 public:
  Labeller(const Request& request, const google::protobuf::Struct& content) {
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
    assay_predictor* predictor = nullptr;
    call(Exit::kCrashed, assay_predictor_create, model, text(R"({"max_batch": 1})"), &predictor);
    predictor_.reset(predictor);
    assay_slot* slot = nullptr;
    call(Exit::kCrashed, assay_slot_create, predictor, &slot);
    slot_.reset(slot);
    assay_report* report = nullptr;
    call(Exit::kCrashed, assay_predictor_report, predictor, &report);
    const auto described = parse(Report(report));
    input_ = shape_of(described, "inputs");
    output_ = shape_of(described, "outputs");
    if (input_.size() != 3 || (output_.size() != 1 && output_.size() != 3))
      throw Error(Exit::kUsage,
                  fmt::format("model '{}' does not label pictures: it takes [{}] and "
                              "gives [{}]",
                              name, fmt::join(input_, ", "), fmt::join(output_, ", ")));
  }

  bool labels_pixels() const { return output_.size() == 3; }
  SampleShape input() const { return {input_[0], input_[1], input_[2]}; }
  // Rows and columns of what is labelled, then classes; of a classifier the classes alone.
  const std::vector<int>& output() const { return output_; }

  // Scores of the classes, of every pixel if it labels pixels.
  std::vector<float> scores(std::vector<float>& sample) {
    const int64_t shape[4] = {1, input_[0], input_[1], input_[2]};
    assay_tensor* borrowed = nullptr;
    call(Exit::kCrashed, assay_tensor_borrow, context_.get(), static_cast<void*>(sample.data()),
         sample.size() * sizeof(float), assay_dtype{ASSAY_F32}, static_cast<const int64_t*>(shape),
         int32_t{4}, nullptr, uintptr_t{0}, &borrowed);
    const Tensor input(borrowed);
    assay_tensor* out = nullptr;
    const assay_tensor* batch[] = {input.get()};
    call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), batch, size_t{1}, &out,
         size_t{1});
    const Tensor logits(out);
    size_t count = 1;
    for (const int side : output_) count *= static_cast<size_t>(side);
    std::vector<float> values(count);
    call(Exit::kCrashed, assay_tensor_read, logits.get(), static_cast<void*>(values.data()),
         count * sizeof(float));
    return values;
  }

 private:
  // Of the first: predictions take their input first and give their scores first.
  static std::vector<int> shape_of(const google::protobuf::Struct& described, const char* key) {
    std::vector<int> out;
    const auto& list = at(described, key).list_value();
    if (list.values().empty()) return out;
    for (const auto& side : at(list.values(0).struct_value(), "sample_shape").list_value().values())
      out.push_back(static_cast<int>(side.number_value()));
    return out;
  }

  Context context_;
  Model model_;
  Predictor predictor_;
  Slot slot_;
  std::vector<int> input_, output_;
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
    return names;
  }
  assay_report* report = nullptr;
  call(Exit::kDataMismatch, assay_dataset_report, text(source), &report);
  const auto manifest = parse(Report(report));
  for (const auto& name : at(manifest, "class_names").list_value().values())
    names.push_back(name.string_value());
  return names;
}

std::string name_of(const std::vector<std::string>& names, size_t index) {
  return index < names.size() ? names[index] : fmt::format("class {}", index);
}

// The likeliest classes of one picture with their probabilities.
std::string class_line(const std::vector<float>& scores, const std::vector<std::string>& names,
                       int top) {
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - scores[order[0]]);
  std::string line;
  for (size_t i = 0; i < std::min(order.size(), static_cast<size_t>(top)); ++i) {
    const double p = std::exp(static_cast<double>(scores[order[i]]) - scores[order[0]]) / sum;
    line += fmt::format("\t{}\t{:.4f}", name_of(names, order[i]), p);
  }
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

Exit label(const Request& request) {
  const auto files = picture_files(request.pictures);
  const auto content = inspect(request.checkpoint);
  const Preparation preparation = preparation_of(request, content);
  const std::vector<std::string> names = class_names(request.names);
  Labeller labeller(request, content);
  if (labeller.labels_pixels() && request.to.empty())
    throw Error(Exit::kUsage, "this model labels pixels: say with --to where its masks shall go",
                "a folder for PNG files, or one .tif file");
  std::optional<MaskWriter> masks;
  if (labeller.labels_pixels()) masks.emplace(request.to);
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, request.quiet);
  progress.begin("labelling");
  size_t done = 0, pages = 0;
  for (const std::filesystem::path& file : files) {
    for (const Page& page : read_pages(file)) {
      if (interrupted != 0) throw Error(Exit::kInterrupted, "stopped");
      std::vector<float> sample = prepare(page, preparation, labeller.input());
      const std::vector<float> scores = labeller.scores(sample);
      if (masks) {
        masks->add(page.name, mask_of(scores, labeller.output(), page.picture.size()));
      } else {
        fmt::print("{}{}\n", page.name, class_line(scores, names, request.top));
      }
      ++pages;
    }
    progress.update(static_cast<double>(++done) / static_cast<double>(files.size()), file.string());
  }
  if (masks) masks->finish();
  if (!request.quiet) progress.end(fmt::format("{} pictures", pages));
  if (masks) fmt::print("{}\n", request.to);
  return Exit::kOk;
}

Exit run(int argc, const char* const* argv) {
  CLI::App app("Labels pictures with the model of a checkpoint: classes or masks.",
               "assay-predict");
  Request request;
  app.add_option("checkpoint", request.checkpoint, "checkpoint file with the model's weights")
      ->required();
  app.add_option("pictures", request.pictures, "picture files, or folders of them")->required();
  app.add_option("--to", request.to, "masks: folder to fill, or .tif file to write");
  app.add_option("--top", request.top, "classes: how many of the likeliest to print")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--names", request.names,
                 "names of the classes: a text file with a line each, or the folder of a data set");
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
