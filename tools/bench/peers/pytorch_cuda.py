#!/usr/bin/env python3
"""PyTorch's time for one training step or one inference of ResNet-50 or the published U-Net on a CUDA device, its
strongest modes.

One line of JSON per mode and case, as protocol.report prints them.  Data lies on the device; batches rotate;
nothing waits for the host inside the timed region.  Training: SGD with momentum (fused), channels_last; the loss is
cross-entropy, for ResNet-50 with label smoothing 0.1, for the U-Net with soft DICE; fp16 with GradScaler, bf16
without.  Modes:
  eager           cudnn.benchmark, fused optimizer
  graph           the whole eager step captured in one CUDA graph
  compile         torch.compile, mode default
  reduce-overhead, max-autotune, max-autotune-no-cudagraphs   torch.compile's other modes
The fastest is the opponent.  Needs torch and torchvision.
"""

import argparse
import json
import statistics

import torch
import torchvision
from torch.nn import functional as F

from pytorch_models import UnetMedical

TRAIN_MODES = ["eager", "graph", "compile", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
INFER_MODES = ["eager", "graph", "compile", "reduce-overhead", "max-autotune"]
AUTOCAST = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}
ROTATING = 4  # batches: more than the second-level cache holds


def autocast(precision):
    return torch.autocast("cuda", AUTOCAST.get(precision, torch.float32), enabled=precision in AUTOCAST)


def compiled(function, mode):
    if mode in ("eager", "graph"):
        return function
    return torch.compile(function, mode=None if mode == "compile" else mode)


def batches(model, count):
    image, label, classes = ((3, 224, 224), (), 1000) if model == "resnet50" else ((1, 572, 572), (388, 388), 2)
    images = [torch.randn(count, *image, device="cuda").to(memory_format=torch.channels_last) for _ in range(ROTATING)]
    labels = [torch.randint(classes, (count, *label), device="cuda") for _ in range(ROTATING)]
    return images, labels


def network(model):
    made = torchvision.models.resnet50() if model == "resnet50" else UnetMedical()
    return made.cuda().to(memory_format=torch.channels_last)


def soft_dice(logits, labels):
    p = logits.float().softmax(dim=1)
    t = F.one_hot(labels, 2).permute(0, 3, 1, 2).float()
    overlap, sizes = (p * t).sum(dim=(2, 3)), (p * p).sum(dim=(2, 3)) + t.sum(dim=(2, 3))
    return (1 - (2 * overlap + 1e-6) / (sizes + 1e-6)).mean()


def loss_function(model, logits, labels):
    if model == "resnet50":
        return F.cross_entropy(logits, labels, label_smoothing=0.1)
    return F.cross_entropy(logits, labels) + soft_dice(logits, labels)


def captured(run):
    """`run` as a CUDA graph, after the warm-up on a side stream that capturing asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def training_step(name, precision, count, mode):
    model = network(name).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.875, weight_decay=3e-5, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "amp-fp16")
    images, labels = batches(name, count)

    def loss_of(x, y):
        with autocast(precision):
            return loss_function(name, model(x), y)

    forward = compiled(loss_of, mode)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(forward(x, y)).backward()
        scaler.step(optimizer)
        scaler.update()

    if mode == "graph":
        x, y = images[0].clone(memory_format=torch.channels_last), labels[0].clone()
        replay = captured(lambda: step(x, y))

        def run(i):
            x.copy_(images[i % ROTATING])
            y.copy_(labels[i % ROTATING])
            replay()
        return run
    return lambda i: step(images[i % ROTATING], labels[i % ROTATING])


def inference(name, precision, count, mode):
    model = network(name).eval()
    images, _ = batches(name, count)

    @torch.inference_mode()
    def predict(x):
        with autocast(precision):
            return model(x)

    forward = compiled(predict, mode)
    if mode == "graph":
        x = images[0].clone(memory_format=torch.channels_last)
        replay = captured(lambda: forward(x))

        def run(i):
            x.copy_(images[i % ROTATING])
            replay()
        return run
    return lambda i: forward(images[i % ROTATING])


def measure(run, warm_up, repeats, per_repeat=10):
    """Milliseconds of one run: medians over groups between two events."""
    for i in range(warm_up):
        run(i)
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for i in range(per_repeat):
            run(i)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / per_repeat)
    return sorted(times)


def report(model, task, precision, count, mode, times):
    print(json.dumps(dict(
        name=f"{model}/{task}/{precision}/{count}", peer="pytorch", mode=mode,
        median_ms=round(statistics.median(times), 4), p10=round(times[len(times) // 10], 4),
        p90=round(times[-1 - len(times) // 10], 4), repeats=len(times),
        version=torch.__version__, cudnn=torch.backends.cudnn.version(),
        device=torch.cuda.get_device_name())), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["resnet50", "unet_medical"], default="resnet50")
    parser.add_argument("--task", choices=["train", "infer"], default="train")
    parser.add_argument("--precisions", nargs="+", default=["tf32", "amp-fp16", "amp-bf16"])
    parser.add_argument("--batches", nargs="+", type=int, default=[256])
    parser.add_argument("--modes", nargs="+", help="default: all")
    parser.add_argument("--repeats", type=int, default=10, help="groups of ten runs")
    chosen = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    modes = chosen.modes or (TRAIN_MODES if chosen.task == "train" else INFER_MODES)
    for precision in chosen.precisions:
        tf32 = precision != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        for count in chosen.batches:
            for mode in modes:
                torch.compiler.reset()
                build = training_step if chosen.task == "train" else inference
                try:
                    times = measure(build(chosen.model, precision, count, mode), 30, chosen.repeats)
                except (RuntimeError, torch.cuda.OutOfMemoryError) as error:
                    print(f"{mode} at batch {count}: {str(error).splitlines()[0]}", flush=True)
                    continue
                report(chosen.model, chosen.task, precision, count, mode, times)


if __name__ == "__main__":
    main()
