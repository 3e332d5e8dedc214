// The fields() of an op drives printing and parsing, so they cannot differ in names or order.
#include "tests/harness/graph_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <type_traits>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/text.h"

namespace assay {
namespace {

// What to_text says of a value that is no enumerator.
constexpr std::string_view kUnknown = "unknown";

// Names are given by models and hosts: mostly words, but they may hold anything.
bool is_word_char(char c) {
  return isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_.+-").find(c) != std::string_view::npos;
}
std::string word_text(std::string_view name) {
  const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), is_word_char);
  return is_word ? std::string(name) : quoted(name);
}

// A cursor over the text that knows its line for messages.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_blank(true);
    return pos_ == text_.size();
  }
  bool accept(std::string_view token) {
    skip_blank(false);
    if (text_.substr(pos_, token.size()) != token) return false;
    pos_ += token.size();
    return true;
  }
  void expect(std::string_view token) { check(accept(token), cat("expected '", token, "'")); }
  std::string_view word() {  // letters, digits, and _ . + -
    skip_blank(false);
    const size_t start = pos_;
    while (pos_ < text_.size() && is_word_char(text_[pos_])) ++pos_;
    check(pos_ > start, "expected a word");
    return text_.substr(start, pos_ - start);
  }
  std::string quoted() {
    expect("\"");
    std::string text;
    for (char c; (c = next()) != '"';) {
      if (c == '\\') c = next() == 'n' ? '\n' : text_[pos_ - 1];
      text += c;
    }
    return text;
  }
  // A word, or what is quoted.
  std::string name() { return at('"') ? quoted() : std::string(word()); }
  template <class T>
  T number() {
    const std::string_view digits = word();
    T value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    check(error == std::errc() && end == digits.data() + digits.size(),
          cat("'", digits, "' is not a number"));
    return value;
  }
  std::string scope() { return at('"') ? quoted() : std::string(rest_of_line()); }
  std::string_view rest_of_line() {
    const size_t stop = std::min(text_.find('\n', pos_), text_.size());
    const auto piece = text_.substr(pos_, stop - pos_);
    pos_ = stop;
    return piece;
  }
  void check(bool ok, const std::string& message) const {
    require(ok, Code::kFormat, "graph text, line ", line_, ": ", message);
  }

 private:
  bool at(char c) {
    skip_blank(false);
    return pos_ < text_.size() && text_[pos_] == c;
  }
  char next() {
    check(pos_ < text_.size() && text_[pos_] != '\n', "a text in quotation marks has no end");
    return text_[pos_++];
  }
  void skip_blank(bool newlines) {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || (newlines && text_[pos_] == '\n')))
      line_ += text_[pos_++] == '\n';
  }
  std::string_view text_;
  size_t pos_ = 0;
  int line_ = 1;
};

Dims parse_dims(Cursor& in) {
  std::vector<int64_t> sizes;
  in.expect("[");
  while (!in.accept("]")) {
    if (!sizes.empty()) in.expect(",");
    sizes.push_back(in.number<int64_t>());
  }
  return Dims(sizes);
}

// Enumerators begin at 0 or 1 and have no gaps.
template <class T>
T parse_enumerator(Cursor& in, std::string_view what) {
  const std::string_view name = in.word();
  for (int i = 0; name != kUnknown; ++i) {
    const std::string_view known = to_text(static_cast<T>(i));
    if (known == name) return static_cast<T>(i);
    if (known == kUnknown && i > 0) break;
  }
  in.check(false, cat("unknown ", what, " '", name, "'"));
  return {};
}

DType parse_dtype(Cursor& in) { return parse_enumerator<DType>(in, "element type"); }

PointwiseOperand parse_operand(Cursor& in) {
  for (const bool is_input : {true, false}) {
    if (!in.accept(is_input ? "x" : "s")) continue;
    const int index = in.number<int>();
    return is_input ? PointwiseOperand::input(index) : PointwiseOperand::step(index);
  }
  return in.number<float>();
}

// A name of elementwise.h, or the steps: "[mul(x0, x1), add(s0, 0.5)]".
PointwiseCode parse_code(Cursor& in) {
  PointwiseCode code;
  if (!in.accept("[")) {
    const std::string_view name = in.word();
    for (const NamedCode& named : named_codes()) {
      if (named.name == name) return named.code;
    }
    in.check(false, cat("unknown function '", name, "'"));
  }
  while (!in.accept("]")) {
    if (!code.steps.empty()) in.expect(",");
    PointwiseStep& step = code.steps.emplace_back();
    step.fn = parse_enumerator<PointwiseFn>(in, "function");
    for (int i = 0; i < pointwise_operands(step.fn); ++i) {
      in.expect(i == 0 ? "(" : ",");
      step.operands[static_cast<size_t>(i)] = parse_operand(in);
    }
    in.expect(")");
  }
  return code;
}

struct FieldParser {
  Cursor& in;
  bool first = true;

  template <class T>
  void operator()(std::string_view name, T& value) {
    if (!first) in.expect(",");
    first = false;
    in.expect(cat(name, "="));
    parse(value);
  }
  void parse(std::string& value) { value = in.quoted(); }
  void parse(bool& value) {
    value = in.accept("true");
    if (!value) in.expect("false");
  }
  template <class T, size_t N>
  void parse(std::array<T, N>& values) {
    for (size_t i = 0; i < N; ++i) {
      in.expect(i == 0 ? "[" : ",");
      values[i] = in.number<T>();
    }
    in.expect("]");
  }
  void parse(Dims& value) { value = parse_dims(in); }
  void parse(DType& value) { value = parse_dtype(in); }
  void parse(std::optional<DType>& value) {
    value.reset();
    if (!in.accept("none")) value = parse_dtype(in);
  }
  void parse(PointwiseCode& value) { value = parse_code(in); }
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) void parse(T& value) {
    value = in.number<T>();
  }
  template <class T>
  requires std::is_enum_v<T>
  void parse(T& value) { value = parse_enumerator<T>(in, "name"); }
};

template <class First>
bool try_parse_op(Cursor& in, std::string_view name, Op& op) {
  if (First::kName != name) return false;
  First value;
  FieldParser parser{in};
  First::fields(value, parser);
  op = value;
  return true;
}

Op parse_op(Cursor& in, std::string_view name) {
  Op op;
  in.expect("{");
#define ASSAY_TRY(Name) || try_parse_op<Name>(in, name, op)
  const bool found = false ASSAY_OPS(ASSAY_TRY);
#undef ASSAY_TRY
  in.check(found, cat("unknown op '", name, "'"));
  in.expect("}");
  return op;
}

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : in_(text) {}

  Graph parse() {
    if (!in_.at_end()) graph_.set_tf32(in_.accept("tf32"));
    while (!in_.at_end()) {
      if (in_.accept("return"))
        parse_return();
      else
        parse_node();
    }
    put_into_places();
    return std::move(graph_);
  }

 private:
  // "in %7 +512 [64,8,1] at [0,1] of [2,2]"
  struct Place {
    int value;
    Layout layout;
  };
  std::optional<Place> parse_place() {
    if (!in_.accept("in ")) return std::nullopt;
    Place place{};
    in_.expect("%"), place.value = in_.number<int>();
    in_.expect("+"), place.layout.offset = in_.number<int64_t>();
    place.layout.strides = parse_dims(in_);
    if (!in_.accept("at ")) return place;
    place.layout.border.emplace();
    place.layout.border->begin = parse_dims(in_);
    in_.expect("of "), place.layout.border->dims = parse_dims(in_);
    return place;
  }
  // When all nodes are there, for some stand in what comes later.
  void put_into_places() {
    for (const auto& [value, place] : places_) {
      if (graph_.value(value).alias_of.valid()) continue;
      const auto concat = values_.find(place.value);
      in_.check(concat != values_.end(), cat("%", place.value, " is not defined"));
      const Op& op = graph_.producer(concat->second).op;
      in_.check(std::holds_alternative<Concat>(op),
                cat("%", value.index, " cannot stand in the result of ", op_name(op)));
      graph_.place(value, concat->second);
    }
    for (const auto& [value, place] : places_) {
      const Layout& layout = graph_.value(value).layout;
      in_.check(layout == place.layout, cat("%", value.index, " lies at", to_text(layout)));
    }
  }
  ValueId parse_value() {
    in_.expect("%");
    const int number = in_.number<int>();
    const auto found = values_.find(number);
    in_.check(found != values_.end(), cat("%", number, " is not defined above"));
    return found->second;
  }
  void parse_node() {
    std::vector<int> names;
    do {
      in_.expect("%");
      names.push_back(in_.number<int>());
    } while (in_.accept(","));
    in_.expect("=");
    const std::string op(in_.word());
    std::vector<ValueId> inputs;
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!inputs.empty()) in_.expect(",");
      inputs.push_back(parse_value());
    }
    const Op parsed = parse_op(in_, op);
    std::vector<ValueType> types;
    std::vector<std::optional<Place>> places;
    in_.expect(":");
    do {
      const DType dtype = parse_dtype(in_);
      types.push_back({dtype, parse_dims(in_)});
      places.push_back(parse_place());
    } while (in_.accept(","));
    const QueueId queue = in_.accept("on ") ? parse_enumerator<QueueId>(in_, "queue") : QueueId{};
    graph_.set_scope(in_.accept("#") ? in_.scope() : "");
    const auto outputs = graph_.emit(parsed, inputs);
    graph_.node(graph_.value(outputs[0]).producer).queue = queue;
    in_.check(outputs.size() == names.size() && types.size() == names.size(),
              "wrong number of outputs");
    for (size_t i = 0; i < names.size(); ++i) {
      in_.check(graph_.type(outputs[i]) == types[i],
                cat("%", names[i], " is inferred as ", graph_.type(outputs[i])));
      in_.check(values_.emplace(names[i], outputs[i]).second,
                cat("%", names[i], " is defined twice"));
      if (places[i]) places_.emplace_back(outputs[i], *places[i]);
    }
  }
  void parse_return() {
    do {
      std::string name = in_.name();
      in_.expect("=");
      graph_.outputs().push_back({std::move(name), parse_value()});
    } while (in_.accept(","));
  }

  Cursor in_;
  Graph graph_;
  std::map<int, ValueId> values_;
  std::vector<std::pair<ValueId, Place>> places_;
};

}  // namespace

std::string graph_text(const Graph& graph) {
  std::string text = graph.tf32() ? "tf32\n" : "";
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    text += node_text(graph, {static_cast<int32_t>(i)}) + "\n";
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    text += cat(i == 0 ? "return " : ", ", word_text(graph.outputs()[i].name), "=%",
                graph.outputs()[i].value.index);
  }
  return text + (graph.outputs().empty() ? "" : "\n");
}

Graph parse_graph(std::string_view text) { return GraphParser(text).parse(); }

}  // namespace assay
