// assay-checkpoint: looks at, checks, compares, converts and exports checkpoint files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "tools/checkpoint/print.h"
#include "tools/common/abi.h"
#include "tools/common/file.h"
#include "tools/common/program.h"

namespace assay::tools {
namespace {

struct Request {
  std::vector<std::string> files;
  std::string from, to, format, map_file, layout, predictor;
  bool ema = false, as_json = false, overwrite = false;
};

// Prints a report as JSON or as `print` words it.
void show(const Request& request, const Report& report,
          std::string (*print)(const google::protobuf::Struct&)) {
  const std::string words = request.as_json ? json(report) + "\n" : print(parse(report));
  std::fwrite(words.data(), 1, words.size(), stdout);
}

Exit inspect(const Request& request) {
  for (const std::string& file : request.files) {
    show(request, made<Report>(Exit::kUsage, assay_checkpoint_inspect, text(file)),
         inspection_text);
  }
  return Exit::kOk;
}

Exit verify(const Request& request) {
  Exit result = Exit::kOk;
  for (const std::string& file : request.files) {
    const auto report = made<Report>(Exit::kUsage, assay_checkpoint_verify, text(file));
    show(request, report, verification_text);
    if (!at(parse(report), "ok").bool_value()) result = Exit::kDataMismatch;
  }
  return result;
}

Exit diff(const Request& request) {
  const auto report =
      made<Report>(Exit::kUsage, assay_checkpoint_diff, text(request.from), text(request.to));
  show(request, report, comparison_text);
  return at(parse(report), "identical").bool_value() ? Exit::kOk : Exit::kDiffers;
}

// That of --format, or else of the target's name.
std::string target_format(const Request& request) {
  if (!request.format.empty()) return request.format;
  if (request.to.ends_with(".safetensors")) return "safetensors";
  if (request.to.ends_with(".ckpt")) return "checkpoint";
  throw Error(Exit::kUsage, request.to +
                                " ends neither in .safetensors nor in .ckpt; say with "
                                "--format which of the two it shall be");
}

// That of --map, or a map that changes nothing but the layout.
std::string name_map(const Request& request) {
  if (request.layout.empty()) return request.map_file.empty() ? "" : read_file(request.map_file);
  return R"({"rules": [{"file": "*", "model": "*", "layout": ")" + request.layout + R"("}]})";
}

void require_free(const Request& request) {
  std::error_code ignored;
  if (!request.overwrite && std::filesystem::exists(request.to, ignored))
    throw Error(Exit::kUsage, request.to + " exists; replace it with --overwrite");
}

Exit convert(const Request& request) {
  const std::string format = target_format(request);
  require_free(request);
  const std::string map = name_map(request);
  show(request,
       made<Report>(Exit::kUsage, assay_checkpoint_convert, text(request.from), text(request.to),
                    text(format), text(map),
                    int32_t{request.ema ? ASSAY_KIND_EMA : ASSAY_KIND_VALUE}),
       conversion_text);
  return Exit::kOk;
}

// The model of the checkpoint, with the moving averages for its weights if they are asked for.
// These go through a file beside the target.
Model opened(const Request& request, const assay_context* context) {
  auto model = made<Model>(Exit::kDataMismatch, assay_model_open, context, text(request.from));
  if (!request.ema) return model;
  const std::string averages = request.to + ".averages";
  call(assay_checkpoint_convert, text(request.from), text(averages), text("safetensors"), text(""),
       int32_t{ASSAY_KIND_EMA}, nullptr);
  const auto remove = [&] { std::filesystem::remove(averages); };
  try {
    call(assay_model_load_weights, model.get(), text(averages), text("safetensors"), text(""),
         uint32_t{0}, nullptr);
  } catch (...) {
    remove();
    throw;
  }
  remove();
  return model;
}

Exit export_onnx(const Request& request) {
  require_free(request);
  const auto context =
      made<Context>(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0});
  const Model model = opened(request, context.get());
  const auto predictor =
      made<Predictor>(Exit::kUsage, assay_predictor_create, model.get(), text(request.predictor));
  show(request,
       made<Report>(Exit::kUsage, assay_predictor_export, predictor.get(), text(request.to),
                    text("onnx")),
       export_text);
  return Exit::kOk;
}

Exit run(int argc, const char* const* argv) {
  CLI::App app("Looks at, checks, compares, converts and exports checkpoint files.",
               "assay-checkpoint");
  app.footer(
      "Exit codes: 0 done; 1 the files differ; 2 wrong usage; 5 it failed; 6 a file is missing "
      "or damaged.\n\nConvolution weights are stored O,H,W,I. A name map (--map) renames tensors "
      "and "
      "turns them\ninto the layouts of other programs; in JSON, for PyTorch's:\n"
      R"(  {"rules": [{"file": "backbone.*", "model": "*", "layout": "OIHW"}]})"
      "\n\nExamples:\n  assay-checkpoint inspect best.ckpt\n"
      "  assay-checkpoint convert best.ckpt best.safetensors --map torch.json --ema\n"
      "  assay-checkpoint convert resnet50.safetensors resnet50.ckpt --layout OIHW\n"
      "  assay-checkpoint export-onnx detector.ckpt detector.onnx --config "
      R"('{"image_size": [512, 640]}')");
  app.require_subcommand(1);
  Request request;
  app.add_flag("--json", request.as_json, "print the report as JSON");
  app.fallthrough();

  auto* inspect_command =
      app.add_subcommand("inspect", "shows what a checkpoint or safetensors file holds");
  inspect_command->add_option("files", request.files, "checkpoint or safetensors files")
      ->required();
  auto* verify_command = app.add_subcommand("verify", "reads every byte and checks every sum");
  verify_command->add_option("files", request.files, "checkpoint files")->required();
  auto* diff_command = app.add_subcommand("diff", "compares two checkpoints bit by bit");
  diff_command->add_option("a", request.from, "a checkpoint")->required();
  diff_command->add_option("b", request.to, "another one")->required();
  auto* convert_command =
      app.add_subcommand("convert", "converts between checkpoints and safetensors");
  convert_command->add_option("from", request.from, "the file to read")->required();
  convert_command->add_option("to", request.to, "the file to write")->required();
  convert_command
      ->add_option("--format", request.format,
                   "format of the target; default: by its name, *.safetensors or *.ckpt")
      ->check(CLI::IsMember({"safetensors", "checkpoint"}));
  auto* map = convert_command->add_option("--map", request.map_file, "file with a name map");
  convert_command
      ->add_option("--layout", request.layout,
                   "instead of a map: how convolutions lie in the safetensors file, OIHW as "
                   "PyTorch's, HWIO or SAME as ours; default: what its metadata say")
      ->check(CLI::IsMember({"OIHW", "HWIO", "SAME"}))
      ->excludes(map);
  convert_command->add_flag("--ema", request.ema, "the moving averages instead of the weights");
  convert_command->add_flag("--overwrite", request.overwrite, "replace a target that exists");
  auto* export_command = app.add_subcommand(
      "export-onnx", "writes the model of a checkpoint as ONNX, for predictions elsewhere");
  export_command->add_option("from", request.from, "the checkpoint")->required();
  export_command->add_option("to", request.to, "the file to write")->required();
  export_command->add_option("--config", request.predictor,
                             "keys of assay_predictor_create as JSON: sizes of images, sequences");
  export_command->add_flag("--ema", request.ema, "the moving averages instead of the weights");
  export_command->add_flag("--overwrite", request.overwrite, "replace a target that exists");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  if (inspect_command->parsed()) return inspect(request);
  if (verify_command->parsed()) return verify(request);
  if (diff_command->parsed()) return diff(request);
  if (export_command->parsed()) return export_onnx(request);
  return convert(request);
}

}  // namespace
}  // namespace assay::tools

int main(int argc, char** argv) {
  return assay::tools::run_program("assay-checkpoint", assay::tools::run, argc, argv);
}
