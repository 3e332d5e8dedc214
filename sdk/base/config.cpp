// What reads the declarations of configurations: parsing, defaults, checks, printing. Each walks
// the fields that Config::fields lists, so a key is known here as soon as it is declared.
#include "sdk/base/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "sdk/base/json_text.h"
#include "sdk/base/json_writer.h"
#include "sdk/base/utf8.h"

namespace assay {
namespace {

using Type = JsonSchema::Type;

// Overloads of one function object, for std::visit.
template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;

void assign(const JsonValue& value, const ConfigRef& config, const JsonSource& source);

// The value has passed check_json_schema: it is of the type that the key declares.
void assign_value(const JsonValue& value, const ConfigValue& to, const JsonSource& source) {
  std::visit(
      Match{[&](bool* target) { *target = value.text == "true"; },
            [&](std::string* target) { *target = value.text; },
            [&](JsonText* target) { target->text = source.text.substr(value.offset, value.size); },
            [&](const ConfigRef& target) { assign(value, target, source); },
            [&](auto* target) {
              *target = json_number<std::remove_pointer_t<decltype(target)>>(value);
            }},
      to);
}

}  // namespace

// What looks into declarations.
class ConfigVisitor {
 public:
  static bool is_of_kind(const ConfigField& field, std::string_view kind) {
    return field.kinds_.empty() || std::ranges::count(field.kinds_, kind) > 0;
  }

  // Of the key that selects it; empty if there is none.
  static std::string kind_of(const ConfigFields& fields) {
    for (const ConfigField& field : fields.all()) {
      if (field.selects_ && field.count() > 0) return *std::get<std::string*>(field.at(0));
    }
    return "";
  }

  static void refuse_empty(const ConfigField& field, const JsonValue& value,
                           std::string_view what) {
    expect(!field.not_empty_ || !value.items.empty(), {what, field.name_}, "[]",
           "a list that is not empty, or none for the default");
  }

  // Only where an optional is not set: what was given stays.
  static void fill_default(const ConfigField& field) {
    if (!field.holder_->is_optional || field.otherwise_.index() == 0) return;
    if (field.count() > 0) return;
    std::visit(
        Match{[](std::monostate) {}, [&](bool value) { *std::get<bool*>(field.at(0)) = value; },
              [&](std::string_view value) { *std::get<std::string*>(field.at(0)) = value; },
              [&](double value) { set_number(field.at(0), value); }},
        field.otherwise_);
  }

  static void check_kind(const Key& key, const ConfigFields& fields, const ConfigField& field,
                         const std::string& kind) {
    if (field.count() == 0 || is_of_kind(field, kind)) return;
    std::vector<std::string_view> own;
    for (const ConfigField& other : fields.all()) {
      if (!other.kinds_.empty() && is_of_kind(other, kind)) own.push_back(other.name_);
    }
    const std::string takes = own.empty() ? "no keys of its own" : enumerate(own, false, " and ");
    fail(
        Code::kInvalid,
        cat(key, " belongs to ", enumerate(field.kinds_), ", not to ", kind, ", which takes ",
            takes),
        {.argument = std::string(key.path), .expected = takes, .actual = std::string(field.name_)});
  }

  // Recurses into objects, so paths are whole: "group[1].match".
  static void check_values(std::string_view of, const std::string& path, const ConfigField& field) {
    for (size_t i = 0; i < field.count(); ++i) {
      const std::string place = field.holder_->is_list ? cat(path, "[", i, "]") : path;
      std::visit(Match{[&](const ConfigRef& object) { check_config(of, place + ".", object); },
                       [&](const std::string* text) {
                         check_text({of, place}, field, *text);
                       },
                       [](const bool*) {}, [](const JsonText*) {},
                       [&](const auto* number) {
                         check_number({of, place}, field, *number);
                       }},
                 field.at(i));
    }
  }

  static bool selects(const ConfigField& field) { return field.selects_; }

 private:
  static void set_number(const ConfigValue& value, double number) {
    std::visit(Match{[](bool*) {}, [](std::string*) {}, [](JsonText*) {}, [](const ConfigRef&) {},
                     [&](auto* target) {
                       *target = static_cast<std::remove_pointer_t<decltype(target)>>(number);
                     }},
               value);
  }

  static void check_text(const Key& key, const ConfigField& field, const std::string& text) {
    if (!field.choices_.empty()) expect_one_of(key, text, field.choices_);
  }

  template <class T>
  static void check_number(const Key& key, const ConfigField& field, T number) {
    if (!field.range_) return;
    const Interval& range = *field.range_;
    std::string actual = cat(number);
    if constexpr (std::is_signed_v<T>) {
      if (number == kNotGiven<T>) actual = "not given";
    }
    const auto value = static_cast<double>(number);
    if constexpr (std::is_floating_point_v<T>) {
      expect(std::isfinite(value) && contains(range, value), key, actual, "a number in ", range);
    } else {
      // The ends of a range in words are those that belong to it.
      const Interval whole{range.with_low ? range.low : range.low + 1,
                           range.with_high ? range.high : range.high - 1, true};
      expect(contains(whole, value), key, actual, in_words(whole));
    }
  }

  static std::string in_words(const Interval& range) {
    return std::isinf(range.high)
               ? cat(range.low, " or more")
               : cat(power_or_digits(range.low), " to ", power_or_digits(range.high));
  }

  // 1073741824 is 2^30.
  static std::string power_or_digits(double value) {
    int exponent = 0;
    const bool power = value >= 1048576 && std::frexp(value, &exponent) == 0.5;
    return power ? cat("2^", exponent - 1) : cat(static_cast<int64_t>(value));
  }
};

namespace {

// Keys that the text does not name keep what they hold; a list that is named replaces the old one.
void assign(const JsonValue& object, const ConfigRef& config, const JsonSource& source) {
  const ConfigFields fields(config);
  for (const JsonMember& member : object.members) {
    const ConfigField& field = *fields.find(member.key);
    if (!field.holder().is_list) {
      assign_value(member.value, field.at(0), source);
      continue;
    }
    ConfigVisitor::refuse_empty(field, member.value, source.what);
    field.clear();
    for (size_t i = 0; i < member.value.items.size(); ++i)
      assign_value(member.value.items[i], field.at(i), source);
  }
}

// "[rows, columns]" of "[rows, columns] of the window".
std::string form_of(std::string_view text) {
  if (!text.starts_with('[')) return "";
  return std::string(text.substr(0, text.find_first_of("])") + 1));
}

void write(JsonWriter& out, const ConfigRef& config);

void write_value(JsonWriter& out, const ConfigValue& value) {
  std::visit(
      Match{[&](const bool* v) { out.boolean(*v); },
            [&](const int32_t* v) { out.integer(int64_t{*v}); },
            [&](const int64_t* v) { out.text(cat(*v)); },
            [&](const uint64_t* v) { out.text(cat(*v)); }, [&](const float* v) { out.real(*v); },
            [&](const double* v) { out.real(*v); }, [&](const std::string* v) { out.text(*v); },
            [&](const JsonText* v) { out.raw(v->text); },
            [&](const ConfigRef& v) { write(out, v); }},
      value);
}

void write_field(JsonWriter& out, const ConfigField& field) {
  if (!field.holder().is_list) return write_value(out, field.at(0));
  out.open('[');
  for (size_t i = 0; i < field.count(); ++i) {
    out.next('[');
    write_value(out, field.at(i));
  }
  out.close(']');
}

void write(JsonWriter& out, const ConfigRef& config) {
  out.open('{');
  const ConfigFields fields(config);
  for (const ConfigField& field : fields.all()) {
    if (field.holder().is_optional && field.count() == 0) continue;
    out.key(field.name());
    write_field(out, field);
  }
  out.close('}');
}

}  // namespace

ConfigField& ConfigField::in(Interval range) {
  range_ = range;
  return *this;
}

ConfigField& ConfigField::one_of(std::span<const std::string_view> choices) {
  choices_.assign(choices.begin(), choices.end());
  return *this;
}

ConfigField& ConfigField::selects() {
  selects_ = true;
  return *this;
}

ConfigField& ConfigField::of(std::initializer_list<std::string_view> kinds) {
  kinds_ = kinds;
  return *this;
}

ConfigField& ConfigField::otherwise(double value) {
  otherwise_ = value;
  return *this;
}

ConfigField& ConfigField::otherwise(bool value) {
  otherwise_ = value;
  return *this;
}

ConfigField& ConfigField::otherwise(const char* value) {
  otherwise_ = std::string_view(value);
  return *this;
}

ConfigField& ConfigField::not_empty() {
  not_empty_ = true;
  return *this;
}

const ConfigField* ConfigFields::find(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &ConfigField::name);
  return found == fields_.end() ? nullptr : &*found;
}

JsonSchema config_schema(const ConfigFields& fields) {
  JsonSchema schema;
  for (const ConfigField& field : fields.all()) {
    const ConfigHolder& holder = field.holder();
    schema.keys.push_back(
        {.name = std::string(field.name()),
         .type = holder.type,
         .is_list = holder.is_list,
         .form = form_of(field.text()),
         .object = holder.type == Type::kObject ? holder.object_schema() : nullptr});
  }
  return schema;
}

void parse_config(std::string_view text, const ConfigRef& config, std::string_view what) {
  if (text.empty()) return;
  const JsonSource source{text, what};
  const JsonValue value = parse_json_text(source);
  check_json_schema(value, config_schema(ConfigFields(config)), source);
  assign(value, config, source);
}

std::string config_to_json(const ConfigRef& config) {
  JsonWriter out;
  write(out, config);
  return out.take();
}

// The kind comes first, for it decides which of the other keys exist and so get a default.
void fill_config_defaults(const ConfigRef& config) {
  const ConfigFields fields(config);
  for (const ConfigField& field : fields.all()) {
    if (ConfigVisitor::selects(field)) ConfigVisitor::fill_default(field);
  }
  const std::string kind = ConfigVisitor::kind_of(fields);
  for (const ConfigField& field : fields.all()) {
    if (ConfigVisitor::is_of_kind(field, kind)) ConfigVisitor::fill_default(field);
    if (field.holder().type != Type::kObject) continue;
    for (size_t i = 0; i < field.count(); ++i)
      fill_config_defaults(std::get<ConfigRef>(field.at(i)));
  }
}

void clear_keys_of_other_kinds(const ConfigRef& config) {
  const ConfigFields fields(config);
  const std::string kind = ConfigVisitor::kind_of(fields);
  for (const ConfigField& field : fields.all()) {
    if (!ConfigVisitor::is_of_kind(field, kind)) field.clear();
  }
}

void check_config(std::string_view of, const std::string& prefix, const ConfigRef& config) {
  const ConfigFields fields(config);
  const std::string kind = ConfigVisitor::kind_of(fields);
  const auto check_field = [&](const ConfigField& field) {
    const std::string path = prefix + std::string(field.name());
    ConfigVisitor::check_kind({of, path}, fields, field, kind);
    ConfigVisitor::check_values(of, path, field);
  };
  // The kind first, by which the other keys are judged; what stands deeper last.
  const auto rank = [](const ConfigField& field) {
    return ConfigVisitor::selects(field) ? 0 : field.holder().type == Type::kObject ? 2 : 1;
  };
  for (const int turn : {0, 1, 2}) {
    for (const ConfigField& field : fields.all()) {
      if (rank(field) == turn) check_field(field);
    }
  }
}

}  // namespace assay
