// Networks of the host's own: a writer behind a handle, whose values carry the graph they are of.
#include <atomic>
#include <memory>
#include <vector>

#include "assay/assay_graph.h"
#include "capi/src/abi.h"
#include "capi/src/model.h"
#include "capi/src/report.h"
#include "capi/src/report_parts.h"
#include "capi/src/reports.pb.h"
#include "sdk/base/expect.h"
#include "sdk/nn/network.h"

struct assay_graph {
  assay_graph(std::shared_ptr<const assay::capi::Context> of, std::string name)
      : context(std::move(of)), writer(std::move(name)) {}

  std::shared_ptr<const assay::capi::Context> context;
  assay::nn::NetworkWriter writer;
  uint32_t number = ++made;  // of this graph in the process, in the upper half of its values
  bool finished = false;
  mutable assay::capi::Access access;

 private:
  static inline std::atomic<uint32_t> made{0};
};

namespace assay::capi {
namespace {

assay_value value_of(const assay_graph& graph, nn::NetworkValue value) {
  return uint64_t{graph.number} << 32 | (static_cast<uint32_t>(value.index) + 1);
}

nn::NetworkValue own_value(const assay_graph& graph, assay_value value, std::string_view argument) {
  const auto number = static_cast<uint32_t>(value >> 32);
  const auto place = static_cast<uint32_t>(value);
  expect(number == graph.number && place >= 1 && place <= graph.writer.size(), {"graph", argument},
         value == 0 ? "0, no value" : "a value of another graph",
         "what assay_graph_input or assay_graph_layer gave for this one");
  return {static_cast<int32_t>(place) - 1};
}

// For calls that add something.
class Adding {
 public:
  explicit Adding(assay_graph& graph) : use_(graph.access, "graph") {
    require(!graph.finished, Code::kInvalid,
            "the graph is finished: make another for another model");
  }

 private:
  ExclusiveUse use_;
};

GraphReport describe(const nn::NetworkWriter& writer) {
  GraphReport report;
  report.set_config(to_json(writer.config()));
  for (const nn::NetworkWriter::Value& value : writer.values()) {
    GraphValueRow& row = *report.add_values();
    row.set_name(std::string(value.name));
    row.set_dtype(std::string(assay::to_text(value.type.dtype)));
    set_shape(*row.mutable_shape(), value.type.dims.span());
  }
  return report;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_graph_create(const assay_context* c, assay_str name, assay_graph** out,
                                assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    *out = new assay_graph(context, std::string(to_text(name, "name")));
  });
}

assay_status assay_graph_input(assay_graph* g, assay_str name, assay_str attributes_json,
                               assay_value* out, assay_error** err) {
  return guard(err, [&] {
    not_null(out, "out");
    assay_graph& graph = not_null(g, "g");
    const std::string given(to_text(name, "name"));
    const std::string_view attributes = to_text(attributes_json, "attributes_json");
    const Adding use(graph);
    *out = value_of(graph, graph.writer.input(given, attributes));
  });
}

assay_status assay_graph_layer(assay_graph* g, assay_str kind, assay_str name,
                               assay_str attributes_json, const assay_value* in, size_t n_in,
                               assay_value* out, size_t n_out, assay_error** err) {
  return guard(err, [&] {
    assay_graph& graph = not_null(g, "g");
    check_array(in, n_in, "in");
    check_array(out, n_out, "out");
    expect(n_in <= nn::kMostOperands, {"", "n_in"}, n_in, "at most ", nn::kMostOperands);
    expect(n_out >= 1 && n_out <= nn::kMostOperands, {"", "n_out"}, n_out, "1 to ",
           nn::kMostOperands, ", places for what the layer gives");
    const std::string_view wanted = to_text(kind, "kind");
    const std::string given(to_text(name, "name"));
    const std::string_view attributes = to_text(attributes_json, "attributes_json");
    const Adding use(graph);
    std::vector<nn::NetworkValue> inputs;
    try {
      for (size_t i = 0; i < n_in; ++i) inputs.push_back(own_value(graph, in[i], "in"));
    } catch (const Error& error) {
      throw error.at(given);
    }
    // `out` may be `in`.
    const assay_value made = value_of(graph, graph.writer.layer(wanted, given, attributes, inputs));
    std::fill_n(out, n_out, assay_value{0});
    out[0] = made;
  });
}

assay_status assay_graph_output(assay_graph* g, assay_str name, assay_value value,
                                assay_value weight, assay_str attributes_json, assay_error** err) {
  return guard(err, [&] {
    assay_graph& graph = not_null(g, "g");
    const std::string given(to_text(name, "name"));
    const std::string_view attributes = to_text(attributes_json, "attributes_json");
    const Adding use(graph);
    const nn::NetworkValue shown = own_value(graph, value, "value");
    nn::NetworkValue counted;
    if (weight != 0) counted = own_value(graph, weight, "weight");
    graph.writer.output(given, shown, counted, attributes);
  });
}

assay_status assay_graph_report(const assay_graph* g, assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const assay_graph& graph = not_null(g, "g");
    const ExclusiveUse use(graph.access, "graph");
    *out = new_report(describe(graph.writer));
  });
}

assay_status assay_graph_finish(assay_graph* g, assay_model** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    assay_graph& graph = not_null(g, "g");
    const Adding use(graph);
    std::shared_ptr<const nn::Model> model = graph.writer.finish();
    *out = new assay_model{std::make_shared<ModelState>(graph.context, std::move(model))};
    graph.finished = true;
  });
}

void assay_graph_free(assay_graph* g) { delete g; }
