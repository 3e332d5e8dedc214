// Names by the first rule whose pattern matches; what its stars stood for goes into the other side.
#include "sdk/train/checkpoint/name_map.h"

#include <algorithm>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/expect.h"
#include "sdk/base/wildcard.h"

namespace assay::weights {
namespace {

using Captures = std::vector<std::string_view>;

// Rules have as many stars on either side, so each star has its capture.
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

// A map without rules keeps every name; one with rules leaves out what none of them matches.
std::optional<MappedName> map_name(const NameMap& map, std::string_view name,
                                   std::string NameRule::*from, std::string NameRule::*to) {
  if (map.rules.empty()) return MappedName{std::string(name), nullptr};
  for (const NameRule& rule : map.rules) {
    Captures captures;
    if (wildcard_match(rule.*from, name, &captures)) {
      return MappedName{substitute(rule.*to, captures), &rule};
    }
  }
  return std::nullopt;
}

void check_rule(const NameRule& rule, size_t number) {
  const std::string path = cat("rules[", number, "]");
  const std::string file = path + ".file", model = path + ".model", role = path + ".role";
  const auto stars = [](const std::string& text) { return std::ranges::count(text, '*'); };
  constexpr std::string_view kOf = "name map";
  expect(!rule.file.empty(), {kOf, file}, "empty", "a name in the file; * stands for any part");
  expect(!rule.model.empty(), {kOf, model}, "empty", "a name in the model; * stands for any part");
  expect(stars(rule.model) == stars(rule.file), {kOf, model}, rule.model, "as many * as in ",
         rule.file);
  if (!rule.role.empty()) expect_one_of({kOf, role}, rule.role, {"value", "statistic"});
}

}  // namespace

void NameRule::fields(ConfigFields& f) {
  f("file", file, "name in the file; * stands for any part");
  f("model", model, "name in the model, with as many *");
  f("layout", layout, "order of the axes in the file").one_of({"SAME", "OIHW", "HWIO", "IO"});
  f("role", role, "value or statistic; empty leaves it to the name");
}

void NameMap::fields(ConfigFields& f) {
  f("rules", rules, "the first that matches decides");
  f("partial", partial, "whether files are written without what no rule matches");
  f("keep", keep, "names of the model that loading leaves as they are");
}

NameMap parse_name_map(std::string_view json) {
  NameMap map;
  parse_json(json, map, "name map");
  check_config("name map", "", map);
  for (size_t i = 0; i < map.rules.size(); ++i) check_rule(map.rules[i], i);
  return map;
}

std::optional<MappedName> name_in_model(const NameMap& map, std::string_view file_name) {
  return map_name(map, file_name, &NameRule::file, &NameRule::model);
}

std::optional<MappedName> name_in_file(const NameMap& map, std::string_view model_name) {
  return map_name(map, model_name, &NameRule::model, &NameRule::file);
}

}  // namespace assay::weights
