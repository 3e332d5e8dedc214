#include "tools/recipe_run/report/json_row.h"

#include <array>

#include "tools/recipe_run/base/error.h"

namespace reciperun {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr std::array<std::pair<Statistic, const char*>, 5> kStatistics = {
    {{Statistic::kMean, "mean"},
     {Statistic::kSpread, "sd"},
     {Statistic::kLargest, "max"},
     {Statistic::kSmallest, "min"},
     {Statistic::kRatio, "ratio"}}};

std::string statistic_word(Statistic statistic) {
  for (const auto& [value, word] : kStatistics) {
    if (value == statistic) return word;
  }
  return "?";
}

Statistic statistic_of_word(const std::string& text) {
  for (const auto& [value, word] : kStatistics) {
    if (word == text) return value;
  }
  throw Error(Exit::kUsage, "statistic '" + text + "' is not known");
}

// Reports of older programs lack members that comparisons need.
const Value& member(const Struct& object, const std::string& name, Value::KindCase kind) {
  const auto found = object.fields().find(name);
  if (found != object.fields().end() && found->second.kind_case() == kind) return found->second;
  throw Error(Exit::kUsage, "'" + name + "' is missing or no " +
                                (kind == Value::kNumberValue   ? "number"
                                 : kind == Value::kBoolValue   ? "true or false"
                                 : kind == Value::kStructValue ? "object"
                                 : kind == Value::kListValue   ? "list"
                                                               : "text"));
}

void write_interval(JsonWriter& json, const Judgement& judgement) {
  json.key("interval");
  if (!judgement.interval) {
    json.null();
    return;
  }
  json.begin_object()
      .field("lower", judgement.interval->lower)
      .field("upper", judgement.interval->upper);
  json.field("of", judgement.interval_of_ratio ? "ratio" : "difference").end_object();
}

// What another run needs to be held against the values of this row.
void write_tolerance(JsonWriter& json, const Row& row) {
  const Tolerance& t = row.tolerance;
  json.key("compare").begin_object().field("statistic", statistic_word(row.statistic));
  json.field("margin", t.margin).field("higher_is_better", t.higher_is_better);
  json.field("lower_is_better", t.lower_is_better).field("one_sided", t.one_sided);
  json.field("decimals", t.decimals).end_object();
}

}  // namespace

void write_row(JsonWriter& json, const Row& row, const TableWords& words) {
  json.begin_object();
  json.field("id", row.id)
      .field("group", row.group)
      .field("title", row.title)
      .field("unit", row.unit);
  json.field(words.reference, row.published).field(words.reference + "_n", row.published_n);
  json.field(words.own, row.measured)
      .field(words.own + "_n", row.measured_n)
      .field("values", row.values);
  json.field("verdict", verdict_word(row.judgement.verdict)).field("reason", row.judgement.reason);
  json.field("evidence", evidence_word(row.evidence))
      .field("gate", row.gate)
      .field("note", row.note);
  json.field("margin", row.margin).field("unfit", row.unfit);
  write_tolerance(json, row);
  write_interval(json, row.judgement);
  json.key("test").begin_object();
  for (const auto& [name, value] : row.judgement.inputs) json.field(name, value);
  json.end_object().end_object();
}

std::string text_member(const Struct& object, const std::string& name) {
  return member(object, name, Value::kStringValue).string_value();
}

double number_member(const Struct& object, const std::string& name) {
  return member(object, name, Value::kNumberValue).number_value();
}

bool flag_member(const Struct& object, const std::string& name) {
  return member(object, name, Value::kBoolValue).bool_value();
}

Row read_row(const Struct& object) {
  Row row;
  row.id = text_member(object, "id");
  row.group = text_member(object, "group");
  row.title = text_member(object, "title");
  row.unit = text_member(object, "unit");
  row.measured = text_member(object, "measured");
  row.measured_n = text_member(object, "measured_n");
  row.unfit = text_member(object, "unfit");
  row.gate = flag_member(object, "gate");
  for (const Value& value : member(object, "values", Value::kListValue).list_value().values())
    row.values.push_back(value.number_value());
  const Struct& compare = member(object, "compare", Value::kStructValue).struct_value();
  row.statistic = statistic_of_word(text_member(compare, "statistic"));
  Tolerance& t = row.tolerance;
  t.margin = number_member(compare, "margin");
  t.higher_is_better = flag_member(compare, "higher_is_better");
  t.lower_is_better = flag_member(compare, "lower_is_better");
  t.one_sided = flag_member(compare, "one_sided");
  t.decimals = static_cast<int>(number_member(compare, "decimals"));
  return row;
}

}  // namespace reciperun
