#!/usr/bin/env python3
"""ONNX Runtime's and OpenVINO's time for inference on the CPU: one line of JSON per model, precision and batch.

  all        ONNX Runtime with every graph optimisation: batch norm folded, blocked (NCHWc) convolutions; fp32
  extended   the same without the layout change, for comparison
  openvino   OpenVINO, compiled for latency; bf16 is its inference precision
The ONNX graphs are written node by node, so that PyTorch's exporter has no say in them.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import protocol

MODES = ["all", "extended", "openvino"]


class Graph:
    """Collects nodes and random weights; each method adds a layer and returns its output's name."""

    def __init__(self):
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(1)

    def weight(self, *shape, low=-0.05, high=0.05):
        name = f"w{len(self.weights)}"
        values = self.random.uniform(low, high, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def conv(self, x, inputs, outputs, kernel, stride=1):
        weight = self.weight(outputs, inputs, kernel, kernel)
        return self.node("Conv", x, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                         pads=[kernel // 2] * 4)

    def batch_norm(self, x, width):
        parts = [self.weight(width, low=0.9, high=1.1), self.weight(width), self.weight(width),
                 self.weight(width, low=0.9, high=1.1)]
        return self.node("BatchNormalization", x, *parts, epsilon=1e-5)

    def relu(self, x):
        return self.node("Relu", x)

    def linear(self, x, inputs, outputs, bias=True):
        parts = [self.weight(outputs, inputs)] + ([self.weight(outputs)] if bias else [])
        return self.node("Gemm", x, *parts, transB=1)

    def model(self, output, size, channels, classes):
        shape_in, shape_out = ["batch", channels, size, size], ["batch", classes]
        graph = helper.make_graph(
            self.nodes, "peer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape_in)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape_out)], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made)
        return made.SerializeToString()


def cnn(size, channels, classes):
    graph, x, inputs, side = Graph(), "x", channels, size
    for width in (32, 64):
        x = graph.relu(graph.batch_norm(graph.conv(x, inputs, width, 5), width))
        x = graph.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        inputs, side = width, side // 2
    x = graph.linear(graph.node("Flatten", x), side * side * inputs, 256, bias=False)
    x = graph.linear(graph.relu(graph.batch_norm(x, 256)), 256, classes)
    return graph.model(x, size, channels, classes)


def basic_block(graph, x, inputs, outputs, stride):
    y = graph.relu(graph.batch_norm(graph.conv(x, inputs, outputs, 3, stride), outputs))
    y = graph.batch_norm(graph.conv(y, outputs, outputs, 3), outputs)
    if stride != 1:
        x = graph.batch_norm(graph.conv(x, inputs, outputs, 1, stride), outputs)
    return graph.relu(graph.node("Add", y, x))


def resnet18(size, channels, classes):
    graph, inputs = Graph(), 64
    x = graph.relu(graph.batch_norm(graph.conv("x", channels, 64, 3), 64))
    for width in (64, 128, 256, 512):
        x = basic_block(graph, x, inputs, width, 1 if width == inputs else 2)
        x = basic_block(graph, x, width, width, 1)
        inputs = width
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    return graph.model(graph.linear(x, 512, classes), size, channels, classes)


def bottleneck(graph, x, inputs, width, stride):
    y = graph.relu(graph.batch_norm(graph.conv(x, inputs, width, 1), width))
    y = graph.relu(graph.batch_norm(graph.conv(y, width, width, 3, stride), width))
    y = graph.batch_norm(graph.conv(y, width, 4 * width, 1), 4 * width)
    if inputs != 4 * width:
        x = graph.batch_norm(graph.conv(x, inputs, 4 * width, 1, stride), 4 * width)
    return graph.relu(graph.node("Add", y, x))


def resnet50(size, channels, classes):
    graph, inputs = Graph(), 64
    x = graph.relu(graph.batch_norm(graph.conv("x", channels, 64, 7, 2), 64))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            x = bottleneck(graph, x, inputs, width, 2 if width > 64 and block == 0 else 1)
            inputs = 4 * width
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    return graph.model(graph.linear(x, 2048, classes), size, channels, classes)


MODELS = {"cnn": cnn, "resnet18": resnet18, "resnet50": resnet50}


def on_onnxruntime(model, images, threads, precision, level):
    import onnxruntime
    if precision != "fp32":
        raise SystemExit("ONNX Runtime has no bf16 on the CPU")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    # The batch is known in advance, as it is to Assay's predictor.
    options.add_free_dimension_override_by_name("batch", images.shape[0])
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": images}), onnxruntime.__version__


def main():
    chosen = protocol.arguments(__doc__.splitlines()[0], ["fp32", "bf16"], MODES)
    for name in chosen.models:
        size, channels, classes, _ = protocol.SHAPES[name]
        model = MODELS[name](size, channels, classes)
        for precision in chosen.precisions:
            for batch in chosen.batches or protocol.INFERENCE_BATCHES[name]:
                images = np.random.default_rng(2).standard_normal((batch, channels, size, size), np.float32)
                for mode in chosen.modes:
                    if mode == "openvino":
                        run, version = protocol.on_openvino(model, {"x": images}, chosen.threads, precision)
                    else:
                        run, version = on_onnxruntime(model, images, chosen.threads, precision, mode)
                    repeats = chosen.repeats * (10 if batch == 1 else 1)
                    times = protocol.measure(run, repeats)
                    case = (name, "infer", precision, batch, chosen.threads)
                    protocol.report("openvino" if mode == "openvino" else "onnxruntime", mode, case, times, version)


if __name__ == "__main__":
    main()
