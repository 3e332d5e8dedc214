// Composes a recipe from its files, depth first, then applies --set and takes the digests.
#include "tools/recipe_run/recipe/load.h"

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <charconv>

#include "tools/recipe_run/recipe/data_lock.h"
#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

constexpr std::string_view kSuffix = ".textproto";

fs::path file_of(const fs::path& root, const std::string& id) {
  return root / (id + std::string(kSuffix));
}

// "1.2.0" → {1, 2, 0}; fewer parts give fewer numbers. Empty if malformed.
std::vector<int> version_parts(const std::string& text) {
  std::vector<int> parts;
  for (const std::string& part : split(text, '.')) {
    int number = -1;
    const auto end = std::from_chars(part.data(), part.data() + part.size(), number).ptr;
    if (part.empty() || end != part.data() + part.size() || number < 0) return {};
    parts.push_back(number);
  }
  return parts;
}

// "file:line:column" of a field of the recipe, of its element `index` in a repeated one; the file
// alone if the field is not set.
std::string place_in(const ParsedFile& parsed, int field_number, int index = -1) {
  const auto* field = v1::Recipe::descriptor()->FindFieldByNumber(field_number);
  auto at = parsed.places.GetLocation(field, index);
  // A list in brackets has one location for all its elements.
  if (at.line < 0 && index > 0) at = parsed.places.GetLocation(field, 0);
  return at.line < 0 ? parsed.file
                     : fmt::format("{}:{}:{}", parsed.file, at.line + 1, at.column + 1);
}

void check_header(const ParsedFile& parsed, const std::string& id) {
  const v1::Recipe& recipe = parsed.recipe;
  require(recipe.schema() == kSchema,
          fmt::format("{}: schema {}, this program reads {}",
                      place_in(parsed, v1::Recipe::kSchemaFieldNumber), recipe.schema(), kSchema),
          recipe.schema() > kSchema ? "use a newer recipe-run" : "add the line 'schema: 1'");
  require(recipe.id() == id,
          fmt::format("{}: id is '{}', expected '{}'", place_in(parsed, v1::Recipe::kIdFieldNumber),
                      recipe.id(), id),
          "a recipe's id is its path below the recipes folder");
  require(version_parts(recipe.version()).size() == 3,
          fmt::format("{}: version '{}' is not major.minor.patch",
                      place_in(parsed, v1::Recipe::kVersionFieldNumber), recipe.version()),
          "for example version: \"1.0.0\"");
}

// The recipe that was probably meant: any other for an `extends`, else one that can be run.
std::string similar_recipe(const fs::path& root, const std::string& id, bool for_extends) {
  std::vector<std::string> candidates = recipe_ids(root);
  std::erase_if(candidates, [&](const std::string& candidate) {
    if (for_extends) return false;
    try {
      const fs::path path = file_of(root, candidate);
      return parse_recipe(path.string(), read_file(path))->recipe.abstract();
    } catch (const Error&) {
      return true;
    }
  });
  return closest(id, candidates);
}

// Composes one recipe from its files, depth first.
class Composer {
 public:
  Composer(fs::path root, ResolvedRecipe& out) : root_(std::move(root)), out_(out) {}

  void apply(const std::string& id, const std::string& range, const std::string& wanted_by) {
    refuse_cycle(id, wanted_by);
    const fs::path path = require_file(id, wanted_by);
    const std::string text = read_file(path);
    const auto parsed = parse_recipe(path.string(), text);
    check_header(*parsed, id);
    check_version(id, parsed->recipe.version(), range, wanted_by);
    open_.push_back(id);
    apply_bases(*parsed);
    lay_file_over(*parsed);
    open_.pop_back();
    BaseFile& base = *out_.lock.add_base();
    base.set_id(id);
    base.set_version(parsed->recipe.version());
    base.set_sha256(sha256_hex(text));
  }

 private:
  void refuse_cycle(const std::string& id, const std::string& wanted_by) const {
    require(std::find(open_.begin(), open_.end(), id) == open_.end(),
            fmt::format("{}: extends goes in a circle: {} → {}", wanted_by, join(open_, " → "), id),
            "remove one of these 'extends'");
  }

  fs::path require_file(const std::string& id, const std::string& wanted_by) const {
    fs::path path = file_of(root_, id);
    if (is_there(path)) return path;
    const std::string similar = similar_recipe(root_, id, !wanted_by.empty());
    throw Error(Exit::kUsage,
                fmt::format("{}there is no recipe '{}' (looked for {})",
                            wanted_by.empty() ? "" : wanted_by + ": ", id, path.string()),
                similar.empty() ? "'recipe-run list' shows what there is"
                                : "did you mean '" + similar + "'?");
  }

  static void check_version(const std::string& id, const std::string& version,
                            const std::string& range, const std::string& wanted_by) {
    try {
      if (version_satisfies(version, range)) return;
    } catch (const Error& error) {
      throw Error(error.exit_code(), wanted_by + ": " + error.what(), error.hint());
    }
    throw Error(
        Exit::kUsage,
        fmt::format("{}: wants '{}@{}', but its version is {}", wanted_by, id, range, version),
        fmt::format("see what its new version changed, then write '{}@^{}'", id,
                    version.substr(0, 1)));
  }

  void apply_bases(const ParsedFile& parsed) {
    for (int i = 0; i < parsed.recipe.extends_size(); ++i) {
      const std::string& base = parsed.recipe.extends(i);
      const size_t at = base.find('@');
      apply(base.substr(0, at), at == std::string::npos ? "" : base.substr(at + 1),
            place_in(parsed, v1::Recipe::kExtendsFieldNumber, i));
    }
  }

  void lay_file_over(const ParsedFile& parsed) {
    out_.recipe.clear_abstract();  // says something about the base alone
    forget(out_.origins, "abstract");
    for (int i = 0; i < parsed.recipe.clear_size(); ++i) {
      const std::string& path = parsed.recipe.clear(i);
      try {
        clear_place(find_place(out_.recipe, path));
      } catch (const Error& error) {
        throw Error(error.exit_code(),
                    place_in(parsed, v1::Recipe::kClearFieldNumber, i) + ": clear: " + error.what(),
                    error.hint());
      }
      forget(out_.origins, path);
    }
    lay_over(parsed, out_.recipe, out_.origins);
  }

  fs::path root_;
  ResolvedRecipe& out_;
  std::vector<std::string> open_;
};

std::string quoted_if_text(const pb::FieldDescriptor& field, const std::string& value) {
  const bool is_text = field.cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING;
  const bool is_list = field.is_repeated() && value.starts_with('[');
  if (!is_text || is_list || value.starts_with('"') || value.starts_with('\'')) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Parses `value` for the field at `place` and puts it there.
void assign(const Place& place, const std::string& path, const std::string& value) {
  std::unique_ptr<pb::Message> fresh(place.parent->New());
  const bool is_message = place.field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
  const auto problem = read_text(
      place.field->name() + (is_message ? " " : ": ") + quoted_if_text(*place.field, value),
      *fresh);
  if (problem) {
    throw Error(Exit::kUsage, fmt::format("--set {}={}: {}", path, value, problem->what),
                "it takes " + kind_of_value(*place.field));
  }
  place.parent->GetReflection()->ClearField(place.parent, place.field);
  place.parent->MergeFrom(*fresh);
}

}  // namespace

void apply_set(const std::string& text, ResolvedRecipe& resolved) {
  const size_t equals = text.find('=');
  require(equals != std::string::npos && equals > 0, "--set '" + text + "' has no '='",
          "write --set training.epochs=2");
  const std::string path = text.substr(0, equals);
  const Place place = find_place(resolved.recipe, path);
  require(place.index < 0, "--set " + path + " names a whole element", "set one of its fields");
  const std::string before = value_text(place);
  drop_oneof_siblings(place, path, resolved.origins);
  assign(place, path, text.substr(equals + 1));
  const std::string after = value_text(place);
  resolved.origins[path].push_back({"--set", 0, after});
  if (before == after) return;
  const auto& free = resolved.recipe.free_override();
  Change& change = *resolved.modifications.Add() = change_of(path, before, after);
  change.set_free(std::any_of(free.begin(), free.end(),
                              [&](const std::string& prefix) { return is_under(path, prefix); }));
}

std::string ResolvedRecipe::modified_reason() const {
  const std::vector<std::string> changes = change_texts(modifications);
  return changes.empty() ? "" : "modified: " + join(changes, ", ");
}

std::string ResolvedRecipe::place_of(std::string path) const {
  const Origin* origin = find_origin(origins, path);
  while (origin == nullptr && path.find('.') != std::string::npos) {
    path.resize(path.rfind('.'));  // what is missing has no place; what it is missing from has one
    origin = find_origin(origins, path);
  }
  return (origin == nullptr ? file.string() : origin->place()) + ": ";
}

bool version_satisfies(const std::string& version, const std::string& range) {
  if (range.empty()) return true;
  const bool caret = range[0] == '^';
  const std::vector<int> wanted = version_parts(caret ? range.substr(1) : range);
  const std::vector<int> have = version_parts(version);
  require(!wanted.empty() && !have.empty(), "version range '" + range + "' is malformed",
          "write ^1, ^1.2 or 1.2.0");
  return caret ? have[0] == wanted[0] && have >= wanted : have == wanted;
}

std::vector<std::string> recipe_ids(const fs::path& root) {
  std::vector<std::string> ids;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(root, error); !error && it != fs::end(it);
       it.increment(error)) {
    if (it->path().extension() != kSuffix) continue;
    const std::string relative = it->path().lexically_relative(root).generic_string();
    ids.push_back(relative.substr(0, relative.size() - kSuffix.size()));
  }
  require(!error, fmt::format("cannot list recipes in '{}': {}", root.string(), error.message()));
  std::sort(ids.begin(), ids.end());
  return ids;
}

void require_concrete(const ResolvedRecipe& resolved) {
  require(!resolved.recipe.abstract(),
          "'" + resolved.recipe.id() + "' is only a base for other recipes",
          "'recipe-run list' shows what can be run");
}

RecipeFile locate_recipe(const fs::path& root, const std::string& name) {
  if (name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) return {root, name};
  const std::string id = parse_recipe(name, read_file(name))->recipe.id();
  const std::string whole = fs::absolute(name).lexically_normal().generic_string();
  const std::string tail = "/" + id + std::string(kSuffix);
  require(whole.ends_with(tail),
          fmt::format("{}: id is '{}', which does not end the file's path", name, id),
          "a recipe's id is its path below the recipes folder");
  return {whole.substr(0, whole.size() - tail.size()), id};
}

ResolvedRecipe load_recipe(const RecipeFile& file, const std::vector<std::string>& sets) {
  ResolvedRecipe resolved;
  resolved.file = file_of(file.root, file.id);
  Composer(file.root, resolved).apply(file.id, "", "");
  for (const std::string& set : sets) apply_set(set, resolved);
  check_recipe(resolved);
  resolved.exec_digest = exec_digest(resolved.recipe);
  resolved.expect_digest = expect_digest(resolved.recipe);
  resolved.data_lock = entries_of(read_lock(file.root / kDataLockFile), resolved.recipe);
  return resolved;
}

}  // namespace reciperun
