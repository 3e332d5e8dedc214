#!/usr/bin/env python3
"""ONNX Runtime's and OpenVINO's time to answer with BERT on the CPU: one line of JSON per model, precision and batch.

  onnxruntime   the graph that PyTorch exports, its layers fused by ONNX Runtime's own optimiser of transformers; fp32
  openvino      the same export, compiled for latency; bf16 is OpenVINO's inference precision
"""

import os
import tempfile

import numpy as np
import torch

import protocol
import pytorch_text

MODES = ["onnxruntime", "openvino"]


def export(name, batch, folder):
    model = pytorch_text.MODELS[name]().eval()
    ids, types = pytorch_text.inputs_of(name, batch)[:2]
    path = os.path.join(folder, "model.onnx")
    with torch.inference_mode():
        torch.onnx.export(model, (ids, types), path, input_names=["ids", "types"],
                          output_names=["start", "end"], opset_version=17, dynamo=False)
    return path, {"ids": ids.numpy().astype(np.int64), "types": types.numpy().astype(np.int64)}


def on_onnxruntime(path, inputs, threads, precision):
    import onnxruntime
    from onnxruntime.transformers import optimizer
    if precision != "fp32":
        raise SystemExit("ONNX Runtime has no bf16 on the CPU")
    fused = optimizer.optimize_model(path, model_type="bert", num_heads=12, hidden_size=768)
    fused.save_model_to_file(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return lambda: session.run(None, inputs), onnxruntime.__version__


def main():
    chosen = protocol.arguments(__doc__.splitlines()[0], ["fp32", "bf16"], MODES, protocol.TEXTS)
    for name in chosen.models:
        for precision in chosen.precisions:
            for batch in chosen.batches or protocol.batches(name, "infer"):
                for mode in chosen.modes:
                    with tempfile.TemporaryDirectory() as folder:
                        path, inputs = export(name, batch, folder)
                        make = protocol.on_openvino if mode == "openvino" else on_onnxruntime
                        run, version = make(path, inputs, chosen.threads, precision)
                        times = protocol.measure(run, chosen.repeats)
                    case = (name, "infer", precision, batch, chosen.threads)
                    protocol.report(mode, mode, case, times, version)


if __name__ == "__main__":
    main()
