#include "sdk/train/checkpoint/name_map.h"

#include <algorithm>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/expect.h"
#include "sdk/base/proto_json.h"

namespace assay::weights {
namespace {

// Bounds the work of matching, which grows with the length of a name to this power.
constexpr auto kMaxStars = 4;

using Captures = std::vector<std::string_view>;

bool match(std::string_view pattern, std::string_view name, Captures& captures) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  for (size_t length = 0; length <= name.size(); ++length) {  // the shortest run first
    captures.push_back(name.substr(0, length));
    if (match(pattern.substr(star + 1), name.substr(length), captures)) return true;
    captures.pop_back();
  }
  return false;
}

std::string substitute(std::string_view pattern, const Captures& captures) {
  std::string name;
  size_t next = 0;
  for (const char c : pattern) {
    if (c == '*') {
      name += captures[next++];
    } else {
      name += c;
    }
  }
  return name;
}

std::optional<MappedName> map_name(const NameMap& map, std::string_view name,
                                   const std::string& (NameRule::*from)() const,
                                   const std::string& (NameRule::*to)() const) {
  if (map.rules().empty()) return MappedName{std::string(name), nullptr};
  for (const NameRule& rule : map.rules()) {
    Captures captures;
    if (match((rule.*from)(), name, captures)) {
      return MappedName{substitute((rule.*to)(), captures), &rule};
    }
  }
  return std::nullopt;
}

void check_rule(const NameRule& rule, int number) {
  const std::string path = cat("rules[", number, "]");
  const std::string file = path + ".file", model = path + ".model", role = path + ".role";
  const auto stars = [](const std::string& text) { return std::ranges::count(text, '*'); };
  constexpr std::string_view kOf = "name map";
  expect(!rule.file().empty(), {kOf, file}, "empty", "a name in the file; * stands for any part");
  expect(!rule.model().empty(), {kOf, model}, "empty",
         "a name in the model; * stands for any part");
  expect(stars(rule.file()) <= kMaxStars, {kOf, file}, rule.file(), "at most ", kMaxStars, " *");
  expect(stars(rule.model()) == stars(rule.file()), {kOf, model}, rule.model(), "as many * as in ",
         rule.file());
  if (!rule.role().empty()) expect_one_of({kOf, role}, rule.role(), {"value", "statistic"});
}

}  // namespace

NameMap parse_name_map(std::string_view json) {
  NameMap map;
  parse_json(json, map, "name map");
  for (int i = 0; i < map.rules_size(); ++i) check_rule(map.rules(i), i);
  return map;
}

std::optional<MappedName> name_in_model(const NameMap& map, std::string_view file_name) {
  return map_name(map, file_name, &NameRule::file, &NameRule::model);
}

std::optional<MappedName> name_in_file(const NameMap& map, std::string_view model_name) {
  return map_name(map, model_name, &NameRule::model, &NameRule::file);
}

}  // namespace assay::weights
