#!/usr/bin/env python3
"""The CPU's time of PyTorch, ONNX Runtime and OpenVINO for the published image networks that pytorch_cuda.py holds: U-Net (572 x 572)
and effdet's EfficientDet-D0 (512 x 512, boxes matched beforehand, inference up to the heads' outputs).

One line of JSON per model, task, precision, batch and mode:
  eager         channels_last; training with the fused SGD with momentum; bf16 is autocast, in inference bf16 weights
  compile       the same under torch.compile (needs a C++ compiler)
  jit           inference: torch.jit.trace, freeze and optimize_for_inference
  onnxruntime, openvino      inference of PyTorch's export; fp32, and OpenVINO's bf16
"""

import os
import tempfile
import warnings

import torch

import protocol
import pytorch_cuda

MODES = ["eager", "compile", "jit", "onnxruntime", "openvino"]


def network_and_batch(name, batch):
    torch.manual_seed(1)
    model = pytorch_cuda.network(name, "cpu", small=False)
    images, *targets = model.batch(batch)
    return model, [images.to(memory_format=torch.channels_last), *targets]


def training_step(name, batch, precision, mode):
    model, inputs = network_and_batch(name, batch)
    optimizer = torch.optim.SGD(model.train().parameters(), lr=1e-3, momentum=0.9, fused=True)

    def loss_of(*inputs):
        with pytorch_cuda.autocast(f"amp-{precision}", "cpu"):
            return model(*inputs)

    forward = torch.compile(loss_of) if mode == "compile" else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward(*inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, torch.__version__


def in_pytorch(name, batch, precision, mode):
    model, (images, *_) = network_and_batch(name, batch)
    model = model.eval().whole
    if precision == "bf16":
        model, images = model.bfloat16(), images.bfloat16()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if mode == "jit":
            model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, images, strict=False)))
        elif mode == "compile":
            import torch._inductor.config as inductor
            inductor.freezing = True
            model = torch.compile(model)

    def run():
        with torch.no_grad() if mode == "compile" else torch.inference_mode():
            return model(images)

    return run, torch.__version__


def exported(name, batch, precision, mode, threads):
    model, (images, *_) = network_and_batch(name, batch)
    inputs = {"image": images.contiguous().numpy()}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = os.path.join(folder, "model.onnx")
        with torch.inference_mode():
            torch.onnx.export(model.eval().whole, (images,), path, input_names=["image"], opset_version=17, dynamo=False)
        if mode == "openvino":
            return protocol.on_openvino(path, inputs, threads, precision)
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        return lambda: session.run(None, inputs), onnxruntime.__version__


def main():
    chosen = protocol.arguments(__doc__.splitlines()[0], ["fp32", "bf16"], MODES, protocol.PUBLISHED_BATCHES)
    torch.set_num_threads(chosen.threads)
    for name in chosen.models:
        for precision in chosen.precisions:
            for batch in chosen.batches or protocol.batches(name, chosen.task):
                for mode in chosen.modes:
                    torch.compiler.reset()
                    if chosen.task == "train":
                        run, version = training_step(name, batch, precision, mode)
                    elif mode in ("onnxruntime", "openvino"):
                        run, version = exported(name, batch, precision, mode, chosen.threads)
                    else:
                        run, version = in_pytorch(name, batch, precision, mode)
                    times = protocol.measure(run, chosen.repeats)
                    peer = mode if mode in ("onnxruntime", "openvino") else "pytorch"
                    protocol.report(peer, mode, (name, chosen.task, precision, batch, chosen.threads), times, version)


if __name__ == "__main__":
    main()
