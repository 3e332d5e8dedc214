// checkpoint: looks at, checks, compares and converts checkpoint files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tools/checkpoint/print.h"
#include "tools/common/abi.h"

namespace assay::tools {
namespace {

struct Request {
  std::vector<std::string> files;
  std::string from, to, format, map_file;
  bool ema = false, as_json = false;
};

// Prints a report as JSON or as `print` words it.
void show(const Request& request, const Report& report,
          std::string (*print)(const google::protobuf::Struct&)) {
  const std::string words = request.as_json ? json(report) + "\n" : print(parse(report));
  std::fwrite(words.data(), 1, words.size(), stdout);
}

Exit inspect(const Request& request) {
  for (const std::string& file : request.files) {
    assay_report* report = nullptr;
    call(assay_checkpoint_inspect, text(file), &report);
    show(request, Report(report), inspection_text);
  }
  return kDone;
}

Exit verify(const Request& request) {
  Exit result = kDone;
  for (const std::string& file : request.files) {
    assay_report* report = nullptr;
    call(assay_checkpoint_verify, text(file), &report);
    const Report owned(report);
    show(request, owned, verification_text);
    if (!at(parse(owned), "ok").bool_value()) result = kDifferent;
  }
  return result;
}

Exit diff(const Request& request) {
  assay_report* report = nullptr;
  call(assay_checkpoint_diff, text(request.from), text(request.to), &report);
  const Report owned(report);
  show(request, owned, comparison_text);
  return at(parse(owned), "identical").bool_value() ? kDone : kDifferent;
}

std::string read_text(const std::string& path) {
  if (path.empty()) return "";
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure(ASSAY_E_NOT_FOUND, "cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Exit convert(const Request& request) {
  const bool to_safetensors = request.to.ends_with(".safetensors");
  const std::string format = !request.format.empty() ? request.format
                             : to_safetensors        ? "safetensors"
                                                     : "checkpoint";
  const std::string map = read_text(request.map_file);
  assay_report* report = nullptr;
  call(assay_checkpoint_convert, text(request.from), text(request.to), text(format), text(map),
       int32_t{request.ema ? ASSAY_KIND_EMA : ASSAY_KIND_VALUE}, &report);
  show(request, Report(report), conversion_text);
  return kDone;
}

Exit run(int argc, char** argv) {
  CLI::App app("Looks at, checks, compares and converts checkpoint files.", "checkpoint");
  app.footer(
      "Exit codes: 0 done; 1 damaged or different; 2 wrong usage; 3 a file cannot be used; 4 other "
      "failures.\nA name map (--map) is JSON: "
      R"({"rules": [{"file": "backbone.*", "model": "*", "layout": "OIHW"}]})");
  app.require_subcommand(1);
  Request request;
  app.add_flag("--json", request.as_json, "print the report as JSON");
  app.fallthrough();

  auto* inspect_command = app.add_subcommand("inspect", "shows what a checkpoint holds");
  inspect_command->add_option("files", request.files, "checkpoint files")->required();
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
                   "format of the target; default: by its name (*.safetensors, else checkpoint)")
      ->check(CLI::IsMember({"safetensors", "checkpoint"}));
  convert_command->add_option("--map", request.map_file, "file with a name map");
  convert_command->add_flag("--ema", request.ema, "the moving averages instead of the weights");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  if (inspect_command->parsed()) return inspect(request);
  if (verify_command->parsed()) return verify(request);
  if (diff_command->parsed()) return diff(request);
  return convert(request);
}

}  // namespace
}  // namespace assay::tools

int main(int argc, char** argv) {
  try {
    return assay::tools::run(argc, argv);
  } catch (const assay::tools::Failure& failure) {
    fmt::print(stderr, "checkpoint: {}\n", failure.what());
    return failure.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "checkpoint: {}\n", error.what());
    return assay::tools::kFailed;
  }
}
