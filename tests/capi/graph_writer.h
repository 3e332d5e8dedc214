// Describes a network of one's own through the C interface.
#pragma once

#include "tests/capi/support.h"

namespace assay::test {

// A graph whose calls must succeed.
class GraphWriter {
 public:
  explicit GraphWriter(const assay_context* context)
      : graph(make<assay_graph>(assay_graph_create, context, text("test"))) {}

  assay_value input(const std::string& name, std::string_view keys) {
    assay_value value = 0;
    ok(assay_graph_input, graph.get(), text(name), text(keys), &value);
    return value;
  }
  assay_value layer(std::string_view kind, const std::string& name, std::string_view keys,
                    std::vector<assay_value> in) {
    assay_value value = 0;
    ok(assay_graph_layer, graph.get(), text(kind), text(name), text(keys), in.data(), in.size(),
       &value, size_t{1});
    return value;
  }
  void output(const std::string& name, assay_value value, assay_value weight,
              std::string_view keys) {
    ok(assay_graph_output, graph.get(), text(name), value, weight, text(keys));
  }
  Owned<assay_model> finish() { return make<assay_model>(assay_graph_finish, graph.get()); }

  Owned<assay_graph> graph;
};

}  // namespace assay::test
