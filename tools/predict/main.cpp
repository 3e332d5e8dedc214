// assay-predict: labels pictures with the model of a checkpoint.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <opencv2/imgproc.hpp>
#include <optional>

#include "tools/common/abi.h"
#include "tools/common/boxes.h"
#include "tools/common/class_names.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/predict/labeller.h"
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

struct Request : ModelChoice {
  std::string to, prepare, names;
  std::vector<std::string> pictures;
  int top = 1;
  double least = 0.3;
  bool quiet = false;
};

google::protobuf::Struct inspect(const std::string& checkpoint) {
  auto content = report_of(Exit::kDataMismatch, assay_checkpoint_inspect, text(checkpoint));
  if (!has(content, "model_name"))
    throw Error(Exit::kDataMismatch,
                fmt::format("'{}' does not say of which model it is", checkpoint),
                "checkpoints say it that are saved with the trainer's state; weights alone and "
                "safetensors files do not");
  return content;
}

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

  // Whose pages are in the order of the pictures, so that none may be missing.
  bool is_one_file() const { return pictures_ && pictures_->is_tiff(); }

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
  Labeller labeller(request, content, preparation.detector_size, !request.prepare.empty());
  Answers answers(request, labeller, preparation);
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, request.quiet);
  progress.begin("labelling");
  size_t done = 0, pages = 0, left_out = 0;
  // The pictures of one file among many; a broken one is named, and the others are labelled.
  const auto read = [&](const std::filesystem::path& file) -> std::vector<Page> {
    try {
      return read_pages(file);
    } catch (const Error& error) {
      if (files.size() == 1 || answers.is_one_file()) throw;
      progress.note(error.what());
      ++left_out;
      return {};
    }
  };
  for (const std::filesystem::path& file : files) {
    const std::vector<Page> read_here = read(file);
    if (interrupted()) throw Error(Exit::kInterrupted, "stopped");
    for (const Page& page : read_here) {
      if (interrupted()) throw Error(Exit::kInterrupted, "stopped");
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
                fmt::format("{} of {} files could not be read", left_out, files.size()),
                pages > 0 ? "the pictures of the others are labelled" : "");
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
  remember_interrupts();
  return label(request);
}

}  // namespace
}  // namespace assay::tools

int main(int argc, char** argv) {
  return assay::tools::run_program("assay-predict", assay::tools::run, argc, argv);
}
