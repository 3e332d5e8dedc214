// The table of layer kinds, and layers made by name.
#include "sdk/nn/layer_kind.h"

#include <algorithm>
#include <map>

#include "sdk/base/config_text.h"

namespace assay::nn {
namespace {

constexpr size_t kTextWidth = 95;  // of a comment's lines, " * " aside

// Words of `text` on lines of kTextWidth, those behind the first indented.
void wrap(std::string& out, std::string_view text, size_t first, size_t further) {
  std::string line(first, ' ');
  bool is_empty = true;
  const auto end_line = [&] {
    out += line + "\n";
    line.assign(further, ' ');
    is_empty = true;
  };
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (!is_empty && line.size() + 1 + space > kTextWidth) end_line();
    if (!is_empty) line += ' ';
    line += text.substr(0, space);
    is_empty = false;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  end_line();
}

std::string input_text(const LayerKind& kind) {
  std::string out;
  for (const LayerInput& input : kind.inputs)
    out += cat(out.empty() ? "" : ", ", input.name, " ", input);
  return out + (kind.text.repeats ? " and so on" : "");
}

// What is said of a key, behind its range and default.
std::string meaning_text(const ConfigField& field) {
  std::string text(field.text());
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  if (!field.choices().empty()) text += ": " + enumerate(field.choices(), true);
  return text;
}

// `said` holds the long meanings so far, and where they stand.
std::string key_text(const ConfigField& field, std::string_view kind,
                     std::map<std::string, std::string_view>& said) {
  const std::string range = range_text(field);
  const std::string otherwise = field.text().ends_with("needed") ? "" : default_text(field);
  std::string meaning = meaning_text(field);
  if (meaning.size() > kTextWidth / 2) {
    const auto [before, is_new] = said.try_emplace(meaning, kind);
    if (!is_new) meaning = cat("As for \"", before->second, '"');
  }
  return cat('"', field.name(), "\"  ", range, range.empty() || otherwise.empty() ? "" : ", ",
             otherwise, ". ", meaning);
}

std::string_view mode_text(LayerModes modes) {
  constexpr std::string_view kTexts[] = {"", ". In evaluations only", ". In predictions only"};
  return kTexts[static_cast<size_t>(modes)];
}

}  // namespace

std::string to_text(const LayerInput& input) {
  constexpr std::string_view kTypes[] = {"", "i32 ", "numbers or i32 "};
  return cat(kTypes[static_cast<size_t>(input.type)], input.shape);
}

std::vector<const LayerKind*> layer_kinds() {
  std::vector<const LayerKind*> all;
  for (const auto& table : {weight_layers(), shape_layers(), loss_layers()}) {
    for (const LayerKind& kind : table) all.push_back(&kind);
  }
  return all;
}

const LayerKind& layer_kind(std::string_view name) {
  std::vector<std::string_view> known;
  for (const LayerKind* kind : layer_kinds()) {
    if (kind->text.name == name) return *kind;
    known.push_back(kind->text.name);
  }
  fail_unknown("no layer is called", "kind", name, known);
}

std::string layer_kinds_text() {
  std::string out;
  std::map<std::string, std::string_view> said;
  for (const LayerKind* kind : layer_kinds()) {
    wrap(out,
         cat('"', kind->text.name, "\"  ", input_text(*kind), ". ", kind->text.text,
             mode_text(kind->text.modes)),
         0, 6);
    const std::unique_ptr<Layer> layer = kind->make();
    fill_config_defaults(layer->config());
    const ConfigFields fields(layer->config());
    for (const ConfigField& field : fields.all())
      wrap(out, key_text(field, kind->text.name, said), 2, 8);
  }
  return out;
}

std::unique_ptr<Layer> make_layer(const LayerKind& kind, const std::string& name,
                                  std::string_view attributes_json) {
  std::unique_ptr<Layer> layer = kind.make();
  const std::string of = cat(name, " (", kind.text.name, ")");
  parse_config(attributes_json, layer->config(), of);
  check_config(of, "", layer->config());
  return layer;
}

}  // namespace assay::nn
