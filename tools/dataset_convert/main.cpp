// dataset-convert: turns the files a data set is published as into records that loaders read.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <vector>

#include "tools/common/abi.h"
#include "tools/common/interrupt.h"
#include "tools/common/picture_reader.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"

namespace assay::tools {
namespace {

constexpr char kFooter[] =
    R"(Converting again what is already there takes no time. An interrupted conversion leaves nothing behind;
those of imagenet, coco and of text leave their finished files, and the same command continues from there.

Exit codes: 0 done; 2 wrong usage; 5 it failed; 6 files are missing, damaged or others; 75 interrupted.

Examples:
  dataset-convert fashion_mnist --from /usr/share/datasets/fashion-mnist --to data/fashion_mnist
  dataset-convert imagenet --from ILSVRC2012 --to data/imagenet --verify
  dataset-convert coco --from coco2017 --to data/coco_2017
  dataset-convert squad --from squad --to data/squad --set vocabulary=bert-base-uncased-vocab.txt
  dataset-convert bert_pretraining --from books.txt --to data/books --set vocabulary=vocab.txt \
    --set lines=paragraphs --set held_out=20
  dataset-convert --verify --to data/imagenet)";

struct Request {
  std::string name, from, to;
  std::vector<std::string> settings;  // "key=value"
  int shards = 0;
  bool overwrite = false, verify = false, quiet = false, list = false, to_recordio = false;
};

// The phases of the library's work, each with a bar and a line at its end.
class Phases {
 public:
  explicit Phases(bool quiet) : quiet_(quiet), bar_(stderr, isatty(STDERR_FILENO) == 1, quiet) {}

  void update(const std::string& phase, int64_t done, int64_t total) {
    if (phase != phase_) {
      finish();
      bar_.begin(phase);
      phase_ = phase;
    }
    done_ = done;
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
    bar_.update(share, fmt::format("{} of {}", done, total));
  }
  // Ends the line of the last phase.
  void finish() {
    if (!quiet_ && !phase_.empty()) bar_.end(fmt::format("{} done", done_));
    phase_.clear();
  }

 private:
  bool quiet_;
  Progress bar_;
  std::string phase_;
  int64_t done_ = 0;
};

int32_t on_progress(uintptr_t user, assay_str phase, int64_t done, int64_t total) {
  reinterpret_cast<Phases*>(user)->update(string(phase), done, total);
  return interrupted() ? -1 : 0;
}

google::protobuf::ListValue datasets() {
  return at(report_of(Exit::kUsage, assay_dataset_list), "datasets").list_value();
}

// A key with what it holds unless it is set, "..." if nothing, and what that may be.
std::string option_text(const google::protobuf::Struct& field) {
  std::string value = text_of(field, "default"), range = text_of(field, "range");
  const bool is_empty = value == "\"\"" || value == "none";
  if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
  if (is_empty) value = "...";
  if (!range.empty()) range = ", " + range;
  return fmt::format("    --set {}={}{}: {}\n", text_of(field, "key"), value, range,
                     text_of(field, "text"));
}

std::string list_text() {
  std::string words;
  const auto list = datasets();
  for (const auto& value : list.values()) {
    const auto& row = value.struct_value();
    words += fmt::format("{}\n    {}\n    licence: {}\n", text_of(row, "name"),
                         text_of(row, "summary"), text_of(row, "licence"));
    if (const std::string from = text_of(row, "default_source"); !from.empty()) {
      words += fmt::format("    default of --from: {}\n", from);
    }
    for (const auto& option : at(row, "options").list_value().values())
      words += option_text(option.struct_value());
  }
  return words;
}

// What the conversion remarked on in the shards of a split: how often, and the first cases.
void print_findings(const google::protobuf::Struct& split) {
  struct Total {
    int64_t count = 0;
    std::vector<std::string> examples;
  };
  std::map<std::string, Total> totals;
  for (const auto& shard : at(split, "shards").list_value().values()) {
    for (const auto& value : at(shard.struct_value(), "findings").list_value().values()) {
      const auto& finding = value.struct_value();
      Total& total = totals[text_of(finding, "kind")];
      total.count += std::stoll(text_of(finding, "count"));
      for (const auto& example : at(finding, "examples").list_value().values()) {
        if (total.examples.size() < 3) total.examples.push_back(example.string_value());
      }
    }
  }
  for (const auto& [kind, total] : totals) {
    fmt::print("  {:<8} {:>10} {}, as {}\n", "", total.count, kind,
               fmt::join(total.examples, "; "));
  }
}

void print_result(const std::string& folder, const Report& report) {
  const auto manifest = parse(report);
  fmt::print("{}: {}\n", folder, text_of(manifest, "dataset"));
  for (const auto& value : at(manifest, "splits").list_value().values()) {
    const auto& split = value.struct_value();
    fmt::print("  {:<8} {:>10} records in {} files, content {:.16}\n", text_of(split, "name"),
               text_of(split, "records"), at(split, "shards").list_value().values_size(),
               text_of(split, "content_sha256"));
    print_findings(split);
  }
}

// The value of a setting as JSON: texts are quoted, and what is no JSON, so that the library says
// what it expected instead.
std::string setting_json(const google::protobuf::Struct& data_set, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw Error(Exit::kUsage, "--set " + setting + ": expected key=value");
  const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
  std::vector<std::string> known;
  for (const auto& option : at(data_set, "options").list_value().values()) {
    const auto& field = option.struct_value();
    known.push_back(text_of(field, "key"));
    if (known.back() != key) continue;
    google::protobuf::Value parsed, text;
    std::string quoted;
    if (text_of(field, "type") != "text" &&
        google::protobuf::util::JsonStringToMessage(value, &parsed).ok())
      return fmt::format("\"{}\": {}", key, value);
    text.set_string_value(value);
    static_cast<void>(google::protobuf::util::MessageToJsonString(text, &quoted));
    return fmt::format("\"{}\": {}", key, quoted);
  }
  throw Error(Exit::kUsage,
              fmt::format("--set {}: {} has no such key; {}", setting, text_of(data_set, "name"),
                          known.empty() ? "it has none at all"
                                        : fmt::format("it has {}", fmt::join(known, ", "))));
}

// The data set of this name as the library lists it; empty if it knows none.
google::protobuf::Struct find_data_set(const std::string& name) {
  const auto list = datasets();
  for (const auto& value : list.values())
    if (text_of(value.struct_value(), "name") == name) return value.struct_value();
  return {};
}

std::string options_json(const Request& request) {
  std::string json =
      fmt::format(R"({{"shards": {}, "overwrite": {})", request.shards, request.overwrite);
  if (const auto row = find_data_set(request.name); has(row, "name"))
    for (const std::string& setting : request.settings) json += ", " + setting_json(row, setting);
  return json + "}";
}

// Some data sets lie at a known place; of the others the user must say it.
void require_source(const Request& request) {
  if (!request.from.empty()) return;
  const auto row = find_data_set(request.name);
  if (has(row, "name") && text_of(row, "default_source").empty())
    throw Error(Exit::kUsage, "--from is required: " + text_of(row, "summary"));
}

Context make_context() {
  assay_host host{};
  host.struct_size = sizeof host;
#ifdef ASSAY_OPENCV
  host.read_image = read_pictures;
#endif
  return made<Context>(Exit::kUsage, assay_context_create, nullptr, &host, nullptr, size_t{0});
}

// Calls work(user of on_progress).
template <class Work>
void with_progress(const Request& request, Work&& work) {
  Phases phases(request.quiet);
  work(reinterpret_cast<uintptr_t>(&phases));
  phases.finish();
}

void read_all(const Request& request, const assay_context* context) {
  with_progress(request, [&](uintptr_t user) {
    call(assay_dataset_verify, context, text(request.to), on_progress, user);
  });
}

void convert(const Request& request) {
  require_source(request);
  const Context context = make_context();
  const std::string options = options_json(request);
  Report report;
  with_progress(request, [&](uintptr_t user) {
    report = made<Report>(Exit::kUsage, assay_dataset_convert, context.get(), text(request.name),
                          text(request.from), text(request.to), text(options), on_progress, user);
  });
  if (request.verify) read_all(request, context.get());
  if (!request.quiet) print_result(request.to, report);
}

bool only_verifies(const Request& request) { return request.verify && request.from.empty(); }

// Reads what is there; never converts.
void verify(const Request& request) {
  const auto report = made<Report>(Exit::kUsage, assay_dataset_report, text(request.to));
  const std::string name = text_of(parse(report), "dataset");
  if (!request.name.empty() && request.name != name)
    throw Error(Exit::kDataMismatch, request.to + " holds " + name + ", not " + request.name);
  read_all(request, make_context().get());
  if (!request.quiet) print_result(request.to, report);
}

void export_recordio(const Request& request) {
  const Context context = make_context();
  const std::string options = fmt::format(R"({{"overwrite": {}}})", request.overwrite);
  with_progress(request, [&](uintptr_t user) {
    call(assay_dataset_export, context.get(), text(request.from), text(request.to), text(options),
         on_progress, user);
  });
}

Exit run(int argc, const char* const* argv) {
  CLI::App app("Turns the files a data set is published as into records that loaders read.",
               "dataset-convert");
  Request request;
  app.add_option("name", request.name, "the data set; --list shows them");
  app.add_option("--from", request.from, "folder of the published files");
  app.add_option("--to", request.to, "folder to fill; created if need be");
  app.add_option("--shards", request.shards, "files per split; default: the data set's choice")
      ->check(CLI::Range(1, 100000));
  app.add_option(
         "--set", request.settings,
         "key=value of the data set's conversion, as often as need be; --list shows them with "
         "their defaults")
      ->allow_extra_args(false);
  app.add_flag("--overwrite", request.overwrite, "replace what the folder holds");
  app.add_flag("--verify", request.verify,
               "read all that --to holds and check it; without --from nothing is converted");
  app.add_flag(
      "--to-recordio", request.to_recordio,
      "the other way: write the data set of JPEG images in --from as MXNet's RecordIO files");
  app.add_flag("-q,--quiet", request.quiet, "say nothing unless it fails");
  app.add_flag("-l,--list", request.list, "list the data sets and what they are made from");
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
    if (!request.list && !request.to_recordio && !only_verifies(request) && request.name.empty())
      throw CLI::RequiredError("name");
    if (request.to_recordio && request.from.empty()) throw CLI::RequiredError("--from");
    if (!request.list && request.to.empty()) throw CLI::RequiredError("--to");
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  if (request.list) {
    fmt::print("{}", list_text());
    return Exit::kOk;
  }
  remember_interrupts();
  if (request.to_recordio) {
    export_recordio(request);
  } else if (only_verifies(request)) {
    verify(request);
  } else {
    convert(request);
  }
  return Exit::kOk;
}

}  // namespace
}  // namespace assay::tools

int main(int argc, char** argv) {
  return assay::tools::run_program("dataset-convert", assay::tools::run, argc, argv);
}
