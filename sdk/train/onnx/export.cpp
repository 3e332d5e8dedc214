// Two graphs of the network, whose difference tells what depends on the batch; what depends on the
// weights alone, computed; and the rest, converted node by node.
#include "sdk/train/onnx/export.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <exception>
#include <limits>
#include <set>

#include "sdk/base/file.h"
#include "sdk/base/version.h"
#include "sdk/graph/text.h"
#include "sdk/passes/pipeline.h"
#include "sdk/train/onnx/converter.h"
#include "sdk/train/training_graph.h"

namespace assay::onnx {
namespace {

constexpr int64_t kIrVersion = 8;  // the first that came with this opset

// As the model wrote it: no pass has joined anything.
Graph graph_of(const train::ModelInstance& instance, VariableTable& variables, int64_t batch) {
  std::vector<std::string> passes;
  for (const auto table : {forward_passes(), inference_passes(), finishing_passes()})
    for (const Pass& pass : table) passes.emplace_back(pass.name);
  return train::build_predict_graph(instance.model(), variables, Precision::kF32, batch, passes)
      .graph;
}

void check_alike(const Graph& smaller, const Graph& larger) {
  bool alike = smaller.nodes().size() == larger.nodes().size();
  for (size_t i = 0; alike && i < smaller.nodes().size(); ++i) {
    const Node &a = smaller.nodes()[i], &b = larger.nodes()[i];
    alike = a.op.index() == b.op.index() && a.inputs == b.inputs;
  }
  require(alike, Code::kUnsupported,
          "cannot be exported to ONNX: its graph has other nodes for other batch sizes");
}

// By node: whether what it gives depends on weights alone.
std::vector<bool> constant_nodes(const Graph& smaller, const Graph& larger) {
  std::vector<bool> constant;
  for (size_t i = 0; i < smaller.nodes().size(); ++i) {
    const Node& node = smaller.nodes()[i];
    bool known = !std::holds_alternative<Input>(node.op) &&
                 attributes_text(node.op) == attributes_text(larger.nodes()[i].op);
    for (const ValueId input : node.inputs)
      known = known && constant[static_cast<size_t>(smaller.value(input).producer.index)];
    constant.push_back(known);
  }
  return constant;
}

std::string bytes_at(Backend& backend, const void* data, size_t size) {
  std::string bytes(size, '\0');
  backend.read(bytes.data(), data, size);
  return bytes;
}

// Gives the converter the constants that the other nodes read, or that are results. Weights are
// read; what is made of them the device computes.
void compute_constants(const Graph& graph, const std::vector<bool>& is_constant,
                       train::ModelInstance& instance, Converter& converter) {
  std::set<ValueId> wanted;
  const auto want = [&](ValueId value) {
    if (is_constant[static_cast<size_t>(graph.value(value).producer.index)]) wanted.insert(value);
  };
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (is_constant[i]) continue;
    for (const ValueId input : graph.nodes()[i].inputs) want(input);
  }
  for (const GraphOutput& output : graph.outputs()) want(output.value);

  Backend& backend = *instance.backend();
  Graph computed = graph;
  computed.outputs().clear();
  for (const ValueId value : wanted) {
    const auto* weight = std::get_if<Parameter>(&graph.producer(value).op);
    if (weight == nullptr) {
      computed.outputs().push_back({cat(value.index), value});
      continue;
    }
    const SegmentTensor tensor = instance.segments().tensor(weight->name, weight->role);
    converter.set_constant(
        value, {weight->name, graph.type(value), bytes_at(backend, tensor.data, tensor.bytes())});
  }
  if (computed.outputs().empty()) return;
  computed.remove_dead_nodes();
  const auto program = compile(std::move(computed), instance.segments());
  program->run();
  backend.wait();
  for (const ValueId value : wanted) {
    const Program::Port* port = program->find_output(cat(value.index));
    if (port == nullptr) continue;
    const Node& node = graph.producer(value);
    const std::string name = cat(node.scope, node.scope.empty() ? "" : "/", op_name(node.op));
    converter.set_constant(value,
                           {name, port->type, bytes_at(backend, port->data, port->type.bytes())});
  }
}

// Bytes into a file, without a copy of all of them. What fails is kept: nothing may be thrown
// through protobuf.
class FileStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(AtomicFile& file) : file_(file) {}
  bool Write(const void* data, int size) override {
    try {
      file_.write(data, static_cast<size_t>(size));
      return true;
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  AtomicFile& file_;
  std::exception_ptr failure_;
};

void write(const pb::Model& model, const std::string& path) {
  AtomicFile file(path);
  FileStream stream(file);
  google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream);
  const bool written = model.SerializeToZeroCopyStream(&adaptor) && adaptor.Flush();
  stream.check();
  require(written, Code::kInternal, "cannot write ", path);
  file.commit();
}

}  // namespace

ExportReport export_predictor(const train::Predictor& predictor, const std::string& path) {
  train::ModelInstance& instance = predictor.snapshot();
  const Graph smaller = graph_of(instance, instance.variables(), kBatches[0]);
  const Graph larger = graph_of(instance, instance.variables(), kBatches[1]);
  check_alike(smaller, larger);

  pb::Model model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("assay");
  model.set_producer_version(std::string(kLibraryVersion));
  model.add_opset_import()->set_version(kOpset);
  pb::Graph& graph = *model.mutable_graph();
  graph.set_name(instance.model().architecture());
  {
    Converter converter(smaller, larger, predictor.inputs(), graph);
    const std::vector<bool> is_constant = constant_nodes(smaller, larger);
    compute_constants(smaller, is_constant, instance, converter);
    for (size_t i = 0; i < smaller.nodes().size(); ++i) {
      if (!is_constant[i] && !std::holds_alternative<Input>(smaller.nodes()[i].op))
        converter.convert({static_cast<int32_t>(i)});
    }
    converter.finish();
  }
  const size_t bytes = model.ByteSizeLong();
  require(bytes <= std::numeric_limits<int32_t>::max(), Code::kUnsupported,
          "cannot be exported to ONNX: the file would have ", bytes, " bytes, more than 2 GiB");
  write(model, path);
  return {graph.node_size(), bytes};
}

}  // namespace assay::onnx
