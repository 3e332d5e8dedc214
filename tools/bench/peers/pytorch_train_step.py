#!/usr/bin/env python3
"""PyTorch's time for one training step on the CPU: forward, loss, backward, SGD with momentum.

One line of JSON per model, precision and mode; the modes are
  eager            channels_last, SGD with the faster of PyTorch's loops over tensors (foreach)
  eager-fused      the same with the fused SGD kernel
  compile          torch.compile of model and loss, fused SGD (needs a C++ compiler)
"""

import torch
from torch.nn import functional as F

import protocol
import pytorch_models

MODES = ["eager", "eager-fused", "compile"]


def training_step(name, batch, precision, mode):
    model, images, labels = pytorch_models.build(name, batch)
    model.train()
    fused = {"foreach": True} if mode == "eager" else {"fused": True}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, **fused)

    def loss_of(images, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = model(images)
        return F.cross_entropy(logits.float(), labels)

    forward = torch.compile(loss_of) if mode == "compile" else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward(images, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main():
    chosen = protocol.arguments(__doc__.splitlines()[0], ["fp32", "bf16"], MODES)
    torch.set_num_threads(chosen.threads)
    for name in chosen.models:
        for precision in chosen.precisions:
            for batch in chosen.batches or [protocol.SHAPES[name][3]]:
                for mode in chosen.modes:
                    torch.compiler.reset()
                    step = training_step(name, batch, precision, mode)
                    times = protocol.measure(step, chosen.repeats)
                    case = (name, "train", precision, batch, chosen.threads)
                    protocol.report("pytorch", mode, case, times, torch.__version__)


if __name__ == "__main__":
    main()
