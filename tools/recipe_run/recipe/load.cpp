#include "tools/recipe_run/recipe/load.h"

#include <algorithm>
#include <charconv>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/canonical.h"
#include "tools/recipe_run/recipe/check.h"
#include "tools/recipe_run/recipe/data_lock.h"
#include "tools/recipe_run/recipe/override.h"
#include "tools/recipe_run/recipe/path.h"

namespace reciperun {
namespace {

constexpr std::string_view kSuffix = ".textproto";

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
std::string place_of(const ParsedFile& parsed, int field_number, int index = -1) {
  const auto* field = v1::Recipe::descriptor()->FindFieldByNumber(field_number);
  auto at = parsed.places.GetLocation(field, index);
  // A list in brackets has one location for all its elements.
  if (at.line < 0 && index > 0) at = parsed.places.GetLocation(field, 0);
  return at.line < 0 ? parsed.file
                     : parsed.file + ":" + std::to_string(at.line + 1) + ":" +
                           std::to_string(at.column + 1);
}

void check_header(const ParsedFile& parsed, const std::string& id) {
  const v1::Recipe& recipe = parsed.recipe;
  if (recipe.schema() != kSchema) {
    throw Error(Exit::kUsage,
                place_of(parsed, v1::Recipe::kSchemaFieldNumber) + ": schema " +
                    std::to_string(recipe.schema()) + ", this program reads " +
                    std::to_string(kSchema),
                recipe.schema() > kSchema ? "use a newer recipe-run" : "add the line 'schema: 1'");
  }
  if (recipe.id() != id) {
    throw Error(Exit::kUsage,
                place_of(parsed, v1::Recipe::kIdFieldNumber) + ": id is '" + recipe.id() +
                    "', expected '" + id + "'",
                "a recipe's id is its path below the recipes folder");
  }
  if (version_parts(recipe.version()).size() != 3) {
    throw Error(Exit::kUsage,
                place_of(parsed, v1::Recipe::kVersionFieldNumber) + ": version '" +
                    recipe.version() + "' is not major.minor.patch",
                "for example version: \"1.0.0\"");
  }
}

// The recipe that was probably meant: any other for an `extends`, else one that can be run.
std::string similar_recipe(const fs::path& root, const std::string& id, bool for_extends) {
  std::vector<std::string> candidates = recipe_ids(root);
  if (for_extends) return closest(id, candidates);
  std::erase_if(candidates, [&](const std::string& candidate) {
    try {
      const fs::path path = root / (candidate + std::string(kSuffix));
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
    const fs::path path = root_ / (id + std::string(kSuffix));
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      const std::string similar = similar_recipe(root_, id, !wanted_by.empty());
      throw Error(Exit::kUsage,
                  (wanted_by.empty() ? "" : wanted_by + ": ") + "there is no recipe '" + id +
                      "' (looked for " + path.string() + ")",
                  similar.empty() ? "'recipe-run list' shows what there is"
                                  : "did you mean '" + similar + "'?");
    }
    const std::string text = read_file(path);
    const auto parsed = parse_recipe(path.string(), text);
    check_header(*parsed, id);
    check_version(id, parsed->recipe.version(), range, wanted_by);
    open_.push_back(id);
    apply_bases(*parsed);
    lay_file_over(*parsed);
    open_.pop_back();
    out_.bases.push_back({id, parsed->recipe.version(), sha256_hex(text)});
  }

 private:
  void refuse_cycle(const std::string& id, const std::string& wanted_by) const {
    if (std::find(open_.begin(), open_.end(), id) == open_.end()) return;
    throw Error(Exit::kUsage,
                wanted_by + ": extends goes in a circle: " + join(open_, " → ") + " → " + id,
                "remove one of these 'extends'");
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
        wanted_by + ": wants '" + id + "@" + range + "', but its version is " + version,
        "see what its new version changed, then write '" + id + "@^" + version.substr(0, 1) + "'");
  }

  void apply_bases(const ParsedFile& parsed) {
    for (int i = 0; i < parsed.recipe.extends_size(); ++i) {
      const std::string& base = parsed.recipe.extends(i);
      const size_t at = base.find('@');
      apply(base.substr(0, at), at == std::string::npos ? "" : base.substr(at + 1),
            place_of(parsed, v1::Recipe::kExtendsFieldNumber, i));
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
                    place_of(parsed, v1::Recipe::kClearFieldNumber, i) + ": clear: " + error.what(),
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

}  // namespace

std::string ResolvedRecipe::modified_reason() const {
  std::vector<std::string> changes;
  for (const Modification& m : modifications) {
    if (!m.free)
      changes.push_back(m.path + " " + (m.from.empty() ? "unset" : m.from) + " → " + m.to);
  }
  return changes.empty() ? "" : "modified: " + join(changes, ", ");
}

bool version_satisfies(const std::string& version, const std::string& range) {
  if (range.empty()) return true;
  const bool caret = range[0] == '^';
  const std::vector<int> wanted = version_parts(caret ? range.substr(1) : range);
  std::vector<int> have = version_parts(version);
  if (wanted.empty() || have.empty()) {
    throw Error(Exit::kUsage, "version range '" + range + "' is malformed",
                "write ^1, ^1.2 or 1.2.0");
  }
  if (!caret) return have == wanted;
  return have[0] == wanted[0] && have >= wanted;
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
  if (error)
    throw Error(Exit::kUsage, "cannot list recipes in '" + root.string() + "': " + error.message());
  std::sort(ids.begin(), ids.end());
  return ids;
}

void require_concrete(const ResolvedRecipe& resolved) {
  if (!resolved.recipe.abstract()) return;
  throw Error(Exit::kUsage, "'" + resolved.recipe.id() + "' is only a base for other recipes",
              "'recipe-run list' shows what can be run");
}

RecipeFile locate_recipe(const fs::path& root, const std::string& name) {
  if (name.size() <= kSuffix.size() || name.substr(name.size() - kSuffix.size()) != kSuffix)
    return {root, name};
  const std::string id = parse_recipe(name, read_file(name))->recipe.id();
  const std::string whole = fs::absolute(name).lexically_normal().generic_string();
  const std::string tail = "/" + id + std::string(kSuffix);
  if (whole.size() < tail.size() || whole.substr(whole.size() - tail.size()) != tail) {
    throw Error(Exit::kUsage, name + ": id is '" + id + "', which does not end the file's path",
                "a recipe's id is its path below the recipes folder");
  }
  return {whole.substr(0, whole.size() - tail.size()), id};
}

ResolvedRecipe load_recipe(const RecipeFile& file, const std::vector<std::string>& sets) {
  ResolvedRecipe resolved;
  resolved.file = file.root / (file.id + std::string(kSuffix));
  Composer(file.root, resolved).apply(file.id, "", "");
  for (const std::string& set : sets) apply_set(set, resolved);
  check_recipe(resolved);
  resolved.exec_digest = exec_digest(resolved.recipe);
  resolved.expect_digest = expect_digest(resolved.recipe);
  resolved.data_lock = entries_of(read_lock(file.root / kDataLockFile), resolved.recipe);
  return resolved;
}

}  // namespace reciperun
