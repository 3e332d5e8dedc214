#include "sdk/graph/text.h"

#include <array>
#include <initializer_list>
#include <optional>

#include "sdk/graph/elementwise.h"

namespace assay {

namespace {

// What to_text says of a value that is no enumerator, here and for DType and Role.
constexpr std::string_view kUnknown = "unknown";

// `names` by the value of the enumerator.
template <class T>
std::string_view name_of(T value, std::initializer_list<std::string_view> names) {
  const auto index = static_cast<size_t>(value);
  return index < names.size() ? names.begin()[index] : kUnknown;
}

}  // namespace

std::string_view to_text(ActivationKind kind) {
  return name_of(kind, {"none", "relu", "elu", "tanh", "sigmoid", "gelu", "swish", "gelu_tanh"});
}
std::string_view to_text(ScalarKind kind) {
  return name_of(kind, {"learning_rate", "random_step"});
}
std::string_view to_text(MomentumConvention convention) {
  return name_of(convention, {"pytorch", "sutskever"});
}
std::string_view to_text(PointwiseFn fn) {
  return name_of(fn, {"add", "sub", "mul", "div", "max", "min", "mul_add", "select", "exp", "expm1",
                      "tanh", "sigmoid", "erf", "bf16", "f16"});
}
std::string_view to_text(QueueId queue) { return name_of(queue, {"compute", "communication"}); }
std::string_view to_text(EpsilonForm form) { return name_of(form, {"pytorch", "tensorflow"}); }
std::string_view to_text(Reduction reduction) {
  return name_of(reduction, {"sum", "mean", "counted_mean"});
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

namespace {

// As it is, to the end of the line.
std::string scope_text(std::string_view scope) {
  const bool as_it_is =
      scope[0] != ' ' && scope[0] != '"' && scope.find('\n') == std::string_view::npos;
  return as_it_is ? std::string(scope) : quoted(scope);
}

struct FieldPrinter {
  std::string out;

  template <class T>
  void operator()(std::string_view name, const T& value) {
    if (!out.empty()) out += ", ";
    out += cat(name, "=");
    print(value);
  }
  void print(const std::optional<DType>& value) {
    out += value ? to_text(*value) : std::string_view("none");
  }
  void print(const std::string& value) { out += quoted(value); }
  template <class T, size_t N>
  void print(const std::array<T, N>& values) {
    for (size_t i = 0; i < N; ++i) out += cat(i == 0 ? "[" : ",", values[i]);
    out += "]";
  }
  template <class T>
  void print(const T& value) {
    out += cat(value);
  }
};

// Where a value lies that does not fill memory of its own.
std::string place_text(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.placed_in.valid() && value.layout == dense_layout(value.type.dims)) return "";
  const ValueId where = value.placed_in.valid() ? value.placed_in : graph.root(id);
  return cat(" in %", where.index, to_text(value.layout));
}

}  // namespace

std::string attributes_text(const Op& op) {
  FieldPrinter printer;
  std::visit([&](const auto& o) { std::decay_t<decltype(o)>::fields(o, printer); }, op);
  return "{" + printer.out + "}";
}

std::string node_text(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::string line;
  for (const ValueId output : node.outputs) line += cat(line.empty() ? "%" : ", %", output.index);
  line += cat(" = ", op_name(node.op), "(");
  for (size_t i = 0; i < node.inputs.size(); ++i)
    line += cat(i == 0 ? "%" : ", %", node.inputs[i].index);
  line += cat(") ", attributes_text(node.op), " :");
  for (size_t i = 0; i < node.outputs.size(); ++i)
    line +=
        cat(i == 0 ? " " : ", ", graph.type(node.outputs[i]), place_text(graph, node.outputs[i]));
  if (node.queue != QueueId::kCompute) line += cat(" on ", to_text(node.queue));
  if (!node.scope.empty()) line += cat("  # ", scope_text(node.scope));
  return line;
}

}  // namespace assay
