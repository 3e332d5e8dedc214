#include "tools/recipe_run/data_lock/lock_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/data_lock/container.h"
#include "tools/recipe_run/recipe/parser_words.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (text.empty())
      text = std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " +
             parser_words(message).what;
  }
  std::string text;
};

fs::path list_file(const fs::path& lock, const std::string& id, const std::string& split) {
  return fs::path(lock.string() + ".lists") / (id + "." + split + ".tsv");
}

std::string list_text(const std::vector<SampleDigest>& samples) {
  std::string text;
  for (const SampleDigest& sample : samples)
    text += sample.content + "\t" + sample.label + "\t" + sample.where + "\n";
  return text;
}

}  // namespace

data::Lock read_lock(const fs::path& file) {
  data::Lock lock;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return lock;
  pb::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(read_file(file), &lock) || !error.text.empty())
    throw Error(Exit::kUsage, file.string() + ":" + error.text,
                "'recipe-run data lock NAME' writes it anew");
  if (lock.schema() > kDataLockSchema)
    throw Error(Exit::kUsage, file.string() + ": of a newer version", "use a newer recipe-run");
  return lock;
}

std::string lock_text(const data::Lock& lock) {
  std::string text;
  pb::TextFormat::PrintToString(lock, &text);
  return text;
}

const data::Entry* find_entry(const data::Lock& lock, const std::string& id) {
  const auto it = std::find_if(lock.entry().begin(), lock.entry().end(),
                               [&](const data::Entry& e) { return e.id() == id; });
  return it == lock.entry().end() ? nullptr : &*it;
}

const data::Split* find_split(const data::Entry& entry, const std::string& name) {
  const auto it = std::find_if(entry.split().begin(), entry.split().end(),
                               [&](const data::Split& s) { return s.name() == name; });
  return it == entry.split().end() ? nullptr : &*it;
}

void write_entry(const fs::path& file, const Fingerprint& fingerprint) {
  data::Lock old = read_lock(file);
  data::Lock lock;
  lock.set_schema(kDataLockSchema);
  for (data::Entry& entry : *old.mutable_entry()) {
    if (entry.id() != fingerprint.entry.id()) *lock.add_entry() = std::move(entry);
  }
  *lock.add_entry() = fingerprint.entry;
  std::sort(lock.mutable_entry()->begin(), lock.mutable_entry()->end(),
            [](const data::Entry& a, const data::Entry& b) { return a.id() < b.id(); });
  for (const auto& [split, samples] : fingerprint.samples)
    write_file_atomic(list_file(file, fingerprint.entry.id(), split), list_text(samples));
  write_file_atomic(file,
                    "# Which data the recipes mean; written by 'recipe-run data lock', checked by "
                    "'recipe-run data verify' and every run.\n" +
                        lock_text(lock));
}

std::optional<std::vector<SampleDigest>> read_list(const fs::path& file, const std::string& id,
                                                   const data::Split& locked) {
  const fs::path path = list_file(file, id, locked.name());
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  std::vector<SampleDigest> out;
  for (const std::string& line : split(read_file(path), '\n')) {
    const std::vector<std::string> cells = split(line, '\t');
    if (cells.size() == 3) out.push_back({cells[2], cells[1], cells[0]});
  }
  if (content_root(out) != locked.content_root()) return std::nullopt;
  return out;
}

data::Lock entries_of(const data::Lock& lock, const v1::Recipe& recipe) {
  std::set<std::string> ids;
  for (const v1::DataRef& data : recipe.data()) ids.insert(data.lock());
  data::Lock out;
  out.set_schema(kDataLockSchema);
  for (const data::Entry& entry : lock.entry()) {
    if (ids.contains(entry.id())) *out.add_entry() = entry;
  }
  return out;
}

void require_locked_data(const data::Lock& lock, const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    const data::Entry* entry = find_entry(lock, data.lock());
    const data::Split* locked = entry == nullptr ? nullptr : find_split(*entry, data.split());
    if (locked == nullptr || locked->records().empty()) continue;
    const fs::path folder = fs::path(recipe.io().data_root()) / data.lock();
    const auto container = open_record_files(folder);
    if (container == nullptr) continue;
    for (const ContainerSplit& split : container->splits) {
      if (split.name != data.split() || split.records == locked->records()) continue;
      throw Error(Exit::kDataMismatch,
                  "data '" + data.id() + "': split " + split.name + " in " + folder.string() +
                      " is not the one that data.lock pins",
                  "'recipe-run data verify " + data.lock() + " --data " + recipe.io().data_root() +
                      "' says what differs");
    }
  }
}

}  // namespace reciperun
