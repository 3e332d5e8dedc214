// Configurations: plain structs whose keys are declared once, where they stand.
//
//   struct DecayConfig {
//     std::string name = "constant";
//     int64_t steps = 10;
//     std::optional<double> gamma;
//     void fields(ConfigFields& f) {
//       f("name", name, "how the rate falls").one_of({"constant", "exponential"}).selects();
//       f("steps", steps, "until the end").in({1, 100, true});
//       f("gamma", gamma, "factor of a step").of({"exponential"}).in({0, 1}).otherwise(0.1);
//     }
//   };
//
// JSON text, defaults, checks, comparison and documentation all read that declaration. A member's
// initializer is the default of its key; std::optional is for a key that not every kind has, or
// whose default is known only beside others, and its default is filled in by with_config_defaults.
// A number that has no default is kNotGiven. Members may be bool, int32_t, int64_t, uint64_t,
// float, double, std::string, another such struct, JsonText, an optional of one of these, or a
// vector of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/base/json_schema.h"

namespace assay {

class ConfigFields;

// What a number holds that must be given, until it is.
template <class T>
requires std::is_signed_v<T>
inline constexpr T kNotGiven = std::numeric_limits<T>::lowest();

template <class T>
concept ConfigStruct = requires(T& object, ConfigFields& fields) {
  object.fields(fields);
};

// A configuration of whatever type. It must outlive this.
struct ConfigRef {
  void* object = nullptr;
  void (*list)(void* object, ConfigFields& fields) = nullptr;
};

// A value of whatever form, as text: something else declares what is in it.
struct JsonText {
  std::string text = "{}";
  bool operator==(const JsonText&) const = default;
};
inline const std::string& to_text(const JsonText& json) { return json.text; }

// One value: of a key, or of its list.
using ConfigValue = std::variant<bool*, int32_t*, int64_t*, uint64_t*, float*, double*,
                                 std::string*, JsonText*, ConfigRef>;

// How a member holds its values: as itself, as an optional or as a vector.
struct ConfigHolder {
  bool is_list;
  bool is_optional;
  JsonSchema::Type type;
  std::shared_ptr<const JsonSchema> (*object_schema)();  // null unless type is kObject
  size_t (*count)(void* member);
  void (*clear)(void* member);                // an optional or a vector becomes empty
  ConfigValue (*at)(void* member, size_t i);  // ... and this makes what is not there
};

// A key, with what was declared of it. The functions return *this, to be chained.
class ConfigField {
 public:
  ConfigField(std::string_view name, void* member, const ConfigHolder& holder,
              std::string_view text)
      : name_(name), text_(text), member_(member), holder_(&holder) {}

  // Numbers, each of a list, lie in this range.
  ConfigField& in(Interval range);
  // Texts are one of these.
  ConfigField& one_of(std::span<const std::string_view> choices);
  ConfigField& one_of(std::initializer_list<std::string_view> choices) {
    return one_of(std::span(choices.begin(), choices.size()));
  }
  // Its value says of which kind the configuration is.
  ConfigField& selects();
  // Only configurations of these kinds have the key.
  ConfigField& of(std::initializer_list<std::string_view> kinds);
  // The default of an optional.
  ConfigField& otherwise(double value);
  ConfigField& otherwise(bool value);
  ConfigField& otherwise(const char* value);
  // An empty list is refused where it is given: it could be meant as "none" or as "the default".
  ConfigField& not_empty();

  std::string_view name() const { return name_; }
  std::string_view text() const { return text_; }
  const std::optional<Interval>& range() const { return range_; }
  const std::vector<std::string_view>& choices() const { return choices_; }
  const ConfigHolder& holder() const { return *holder_; }
  size_t count() const { return holder_->count(member_); }
  void clear() const { holder_->clear(member_); }
  ConfigValue at(size_t i) const { return holder_->at(member_, i); }

 private:
  friend class ConfigFields;
  friend class ConfigVisitor;
  std::string_view name_, text_;
  void* member_;
  const ConfigHolder* holder_;
  std::optional<Interval> range_;
  std::vector<std::string_view> choices_, kinds_;
  std::variant<std::monostate, double, bool, std::string_view> otherwise_;
  bool selects_ = false;
  bool not_empty_ = false;
};

// The keys of one configuration, in the order of their declaration.
class ConfigFields {
 public:
  explicit ConfigFields(const ConfigRef& config) { config.list(config.object, *this); }

  template <class T>
  ConfigField& operator()(std::string_view name, T& member, std::string_view text);

  const std::vector<ConfigField>& all() const& { return fields_; }
  void all() && = delete;  // nothing would hold them
  const ConfigField* find(std::string_view name) const;

 private:
  std::vector<ConfigField> fields_;
};

template <ConfigStruct Config>
ConfigRef config_ref(Config& config) {
  return {&config,
          [](void* object, ConfigFields& fields) { static_cast<Config*>(object)->fields(fields); }};
}

// ---- What reads declarations ----

JsonSchema config_schema(const ConfigFields& fields);
void parse_config(std::string_view text, const ConfigRef& config, std::string_view what);
std::string config_to_json(const ConfigRef& config);
void fill_config_defaults(const ConfigRef& config);
void clear_keys_of_other_kinds(const ConfigRef& config);

// Every optional key of the configuration's kind that was not given gets its default.
template <ConfigStruct Config>
Config with_config_defaults(Config config) {
  fill_config_defaults(config_ref(config));
  return config;
}

// Forgets what another kind of configuration has: files of before kinds were told apart list it
// all.
template <ConfigStruct Config>
void clear_keys_of_other_kinds(Config& config) {
  clear_keys_of_other_kinds(config_ref(config));
}

// Checks a configuration with its defaults; kInvalid names the key at fault: "<of>: <prefix>key".
void check_config(std::string_view of, const std::string& prefix, const ConfigRef& config);
template <ConfigStruct Config>
void check_config(std::string_view of, const std::string& prefix, const Config& config) {
  check_config(of, prefix, config_ref(const_cast<Config&>(config)));  // reads only
}

// As parse_json of messages (proto_json.h), without a second parser.
template <ConfigStruct Config>
void parse_json(std::string_view text, Config& config, std::string_view what) {
  parse_config(text, config_ref(config), what);
}

// One line of JSON, keys in the order of their declaration. Optional keys that are not set are left
// out; 64-bit integers are texts, which keep all their digits with every reader.
template <ConfigStruct Config>
std::string to_json(const Config& config) {
  return config_to_json(config_ref(const_cast<Config&>(config)));  // reads only
}

// ---- Members ----

namespace detail {

template <class T>
constexpr JsonSchema::Type config_type() {
  using Type = JsonSchema::Type;
  if constexpr (std::is_same_v<T, bool>) return Type::kBool;
  if constexpr (std::is_same_v<T, int32_t>) return Type::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return Type::kInt64;
  if constexpr (std::is_same_v<T, uint64_t>) return Type::kUint64;
  if constexpr (std::is_same_v<T, float>) return Type::kFloat;
  if constexpr (std::is_same_v<T, double>) return Type::kDouble;
  if constexpr (std::is_same_v<T, std::string>) return Type::kText;
  if constexpr (std::is_same_v<T, JsonText>) return Type::kAnything;
  if constexpr (ConfigStruct<T>) return Type::kObject;
}

template <class T>
ConfigValue config_value(T& value) {
  if constexpr (ConfigStruct<T>) {
    return config_ref(value);
  } else {
    return &value;
  }
}

template <class T>
std::shared_ptr<const JsonSchema> config_object_schema() {
  T object;
  return std::make_shared<const JsonSchema>(config_schema(ConfigFields(config_ref(object))));
}

template <class T>
constexpr auto config_schema_of() -> std::shared_ptr<const JsonSchema> (*)() {
  if constexpr (ConfigStruct<T>) return &config_object_schema<T>;
  return nullptr;
}

template <class T>
struct ConfigMember {
  static constexpr ConfigHolder kHolder{
      false,
      false,
      config_type<T>(),
      config_schema_of<T>(),
      [](void*) -> size_t { return 1; },
      [](void*) {},
      [](void* member, size_t) { return config_value(*static_cast<T*>(member)); }};
};

template <class T>
struct ConfigMember<std::optional<T>> {
  using Member = std::optional<T>;
  static constexpr ConfigHolder kHolder{
      false,
      true,
      config_type<T>(),
      config_schema_of<T>(),
      [](void* member) -> size_t { return static_cast<Member*>(member)->has_value() ? 1 : 0; },
      [](void* member) { static_cast<Member*>(member)->reset(); },
      [](void* member, size_t) {
        auto& optional = *static_cast<Member*>(member);
        if (!optional) optional.emplace();
        return config_value(*optional);
      }};
};

template <class T>
struct ConfigMember<std::vector<T>> {
  using Member = std::vector<T>;
  static constexpr ConfigHolder kHolder{
      true,
      false,
      config_type<T>(),
      config_schema_of<T>(),
      [](void* member) { return static_cast<Member*>(member)->size(); },
      [](void* member) { static_cast<Member*>(member)->clear(); },
      [](void* member, size_t i) {
        auto& list = *static_cast<Member*>(member);
        if (i >= list.size()) list.resize(i + 1);
        return config_value(list[i]);
      }};
};

}  // namespace detail

template <class T>
ConfigField& ConfigFields::operator()(std::string_view name, T& member, std::string_view text) {
  return fields_.emplace_back(name, &member, detail::ConfigMember<T>::kHolder, text);
}

}  // namespace assay
