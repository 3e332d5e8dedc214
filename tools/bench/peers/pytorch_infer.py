#!/usr/bin/env python3
"""PyTorch's time for inference on the CPU: one line of JSON per model, precision, batch and mode.

  eager     channels_last under inference_mode
  jit       torch.jit.trace, freeze and optimize_for_inference: batch norm folded, oneDNN layouts
  compile   torch.compile with frozen weights (needs a C++ compiler)
bf16 converts weights and images once: faster than autocast, which converts on every call.
"""

import warnings

import torch

import protocol
import pytorch_models

MODES = ["eager", "jit", "compile"]


def predictor(name, batch, precision, mode):
    model, images, _ = pytorch_models.build(name, batch)
    model.eval()
    if precision == "bf16":
        model, images = model.bfloat16(), images.bfloat16()
    with torch.inference_mode(mode != "compile"), torch.no_grad():
        if mode == "jit":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = torch.jit.optimize_for_inference(
                    torch.jit.freeze(torch.jit.trace(model, images)))
        elif mode == "compile":
            import torch._inductor.config as inductor
            inductor.freezing = True
            model = torch.compile(model)

    def run():
        with torch.no_grad() if mode == "compile" else torch.inference_mode():
            return model(images)

    return run


def main():
    chosen = protocol.arguments(__doc__.splitlines()[0], ["fp32", "bf16"], MODES)
    torch.set_num_threads(chosen.threads)
    for name in chosen.models:
        for precision in chosen.precisions:
            for batch in chosen.batches or protocol.INFERENCE_BATCHES[name]:
                for mode in chosen.modes:
                    torch.compiler.reset()
                    run = predictor(name, batch, precision, mode)
                    repeats = chosen.repeats * (10 if batch == 1 else 1)
                    times = protocol.measure(run, repeats)
                    case = (name, "infer", precision, batch, chosen.threads)
                    protocol.report("pytorch", mode, case, times, torch.__version__)


if __name__ == "__main__":
    main()
