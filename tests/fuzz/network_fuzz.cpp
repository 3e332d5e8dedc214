// Any text as the network of a checkpoint: reading it, and writing what was read into a graph,
// raise nothing but Error.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "sdk/base/error.h"
#include "sdk/nn/network.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::unique_ptr<nn::Model> model = nn::read_network(text);
    Graph graph;
    VariableTable variables;
    nn::Builder builder(graph, nn::Mode::kTrain, 3, variables, 0);
    model->forward(builder);
    // What a checkpoint would carry is read again.
    nn::read_network(model->config_json());
  } catch (const Error&) {
  }
  return 0;
}
