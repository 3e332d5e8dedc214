#!/usr/bin/env python3
"""PyTorch's time for one training step or one inference of the published models on a CUDA device, its strongest modes.

One line of JSON per mode and case, as protocol.report prints them.  Data lies on the device; batches rotate;
nothing waits for the host inside the timed region.  fp16 with GradScaler, bf16 without.  Images are channels_last;
training is SGD with momentum (fused).  Losses: ResNet-50 cross-entropy with label smoothing 0.1; U-Net cross-entropy
and soft DICE; EfficientDet-D0 effdet's, with anchors matched beforehand; its inference ends with the heads' outputs.
Text is that of pytorch_text.py: fused attention, dropout 0.1, fused AdamW, full sequences.  Modes:
  eager           cudnn.benchmark, fused optimizer
  graph           the whole eager step captured in one CUDA graph
  compile         torch.compile, mode default
  reduce-overhead, max-autotune, max-autotune-no-cudagraphs   torch.compile's other modes
The fastest is the opponent.  Needs torch and torchvision; for text transformers, for EfficientDet effdet.
--device cpu --small shows that a case runs at all: few layers, small images, wall time.
"""

import argparse
import json
import statistics
import time

import torch
from torch.nn import functional as F

import protocol

TRAIN_MODES = ["eager", "graph", "compile", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
INFER_MODES = ["eager", "graph", "compile", "reduce-overhead", "max-autotune"]
AUTOCAST = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}
ROTATING = 4  # batches: more than the second-level cache holds


def autocast(precision, device):
    return torch.autocast(device, AUTOCAST.get(precision, torch.float32), enabled=precision in AUTOCAST)


def compiled(function, mode):
    if mode in ("eager", "graph"):
        return function
    return torch.compile(function, mode=None if mode == "compile" else mode)


class Classifier(torch.nn.Module):
    size, labels, classes = 224, (), 1000

    def __init__(self, small):
        super().__init__()
        import torchvision
        self.inputs = (3, 64 if small else self.size)
        self.whole = torchvision.models.resnet18() if small else torchvision.models.resnet50()

    def forward(self, images, labels=None):
        logits = self.whole(images)
        return logits if labels is None else F.cross_entropy(logits, labels, label_smoothing=0.1)

    def batch(self, count):
        channels, size = self.inputs
        return torch.randn(count, channels, size, size), torch.randint(self.classes, (count, *self.labels))


class Segmenter(Classifier):
    labels, classes = (388, 388), 2

    def __init__(self, small):
        torch.nn.Module.__init__(self)
        from pytorch_models import UnetMedical
        self.inputs = (1, 572)
        self.whole = UnetMedical(width=4 if small else 64)

    def forward(self, images, labels=None):
        logits = self.whole(images)
        return logits if labels is None else F.cross_entropy(logits, labels) + soft_dice(logits, labels)


def soft_dice(logits, labels):
    p = logits.float().softmax(dim=1)
    t = F.one_hot(labels, 2).permute(0, 3, 1, 2).float()
    overlap, sizes = (p * t).sum(dim=(2, 3)), (p * p).sum(dim=(2, 3)) + t.sum(dim=(2, 3))
    return (1 - (2 * overlap + 1e-6) / (sizes + 1e-6)).mean()


class Detector(torch.nn.Module):
    """Boxes are matched to anchors once, outside of the timed region."""

    def __init__(self, small):
        super().__init__()
        import effdet
        config = effdet.get_efficientdet_config("tf_efficientdet_d0")
        config.num_classes, config.image_size = 91, (128, 128) if small else (512, 512)
        config.backbone_args = dict(drop_path_rate=0.0)
        self.size = config.image_size[0]
        self.whole = effdet.EfficientDet(config, pretrained_backbone=False)
        self.loss = effdet.DetBenchTrain(self.whole, create_labeler=False).loss_fn
        anchors = effdet.anchors.Anchors.from_config(config)
        self.labeler = effdet.anchors.AnchorLabeler(anchors, 91, match_threshold=0.5)

    def forward(self, images, positives=None, *targets):
        classes, boxes = self.whole(images)
        if positives is None:
            return classes, boxes
        levels = len(targets) // 2
        return self.loss(classes, boxes, list(targets[:levels]), list(targets[levels:]), positives)[0]

    def batch(self, count, boxes=7):
        begin = torch.rand(count, boxes, 2) * self.size * 0.6
        corners = torch.cat([begin, begin + torch.rand(count, boxes, 2) * self.size * 0.4], dim=2)
        classes = torch.randint(1, 91, (count, boxes)).float()
        targets, places, positives = self.labeler.batch_label_anchors(list(corners), list(classes))
        return (torch.randn(count, 3, self.size, self.size), positives, *targets, *places)


class Text(torch.nn.Module):
    def __init__(self, name, small):
        super().__init__()
        import pytorch_text
        self.name, self.inputs_of = name, pytorch_text.inputs_of
        self.whole = pytorch_text.MODELS[name](2 if small else 12)

    def forward(self, *inputs):
        return self.whole(*(inputs if self.training else inputs[:2]))

    def batch(self, count):
        return self.inputs_of(self.name, count)


IMAGES = {"resnet50": Classifier, "unet_medical": Segmenter, "efficientdet_d0": Detector}
MODELS = [*IMAGES, *protocol.TEXTS]


def network(name, device, small):
    if name in protocol.TEXTS:
        return Text(name, small).to(device)
    return IMAGES[name](small).to(device).to(memory_format=torch.channels_last)


def batches(model, count, device):
    """Labels of detectors are made on the CPU, as a loader would."""
    def placed(tensor):
        images = tensor.dim() == 4 and tensor.shape[1] <= 3
        return tensor.to(device, memory_format=torch.channels_last if images else torch.preserve_format)
    return [[placed(tensor) for tensor in model.batch(count)] for _ in range(ROTATING)]


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


def rotated(run, batches_of, mode):
    """`run` of one batch after the other; a captured graph reads its own, which each is copied to."""
    if mode != "graph":
        return lambda i: run(*batches_of[i % ROTATING])
    fixed = [tensor.clone(memory_format=torch.preserve_format) for tensor in batches_of[0]]
    replay = captured(lambda: run(*fixed))

    def copy_and_run(i):
        for to, source in zip(fixed, batches_of[i % ROTATING]):
            to.copy_(source)
        replay()
    return copy_and_run


def training_step(name, precision, count, mode, device, small):
    model = network(name, device, small).train()
    if name in protocol.TEXTS:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=mode == "graph")
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.875, weight_decay=3e-5, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=precision == "amp-fp16")

    def loss_of(*inputs):
        with autocast(precision, device):
            return model(*inputs)

    forward = compiled(loss_of, mode)

    def step(*inputs):
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(forward(*inputs)).backward()
        scaler.step(optimizer)
        scaler.update()

    return rotated(step, batches(model, count, device), mode)


def inference(name, precision, count, mode, device, small):
    model = network(name, device, small).eval()

    @torch.inference_mode()
    def predict(*inputs):
        with autocast(precision, device):
            return model(*inputs)

    given = 2 if name in protocol.TEXTS else 1
    inputs = [batch[:given] for batch in batches(model, count, device)]
    return rotated(compiled(predict, mode), inputs, mode)


def measure_on_cpu(run, repeats):
    times = []
    for i in range(1 + repeats):
        begin = time.perf_counter()
        run(i)
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times[1:])


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


def report(model, task, precision, count, mode, device, times):
    print(json.dumps(dict(
        name=f"{model}/{task}/{precision}/{count}", peer="pytorch", mode=mode,
        median_ms=round(statistics.median(times), 4), p10=round(times[len(times) // 10], 4),
        p90=round(times[-1 - len(times) // 10], 4), repeats=len(times),
        version=torch.__version__, cudnn=torch.backends.cudnn.version(),
        device=torch.cuda.get_device_name() if device == "cuda" else device)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--task", choices=["train", "infer"], default="train")
    parser.add_argument("--precisions", nargs="+", default=["tf32", "amp-fp16", "amp-bf16"])
    parser.add_argument("--batches", nargs="+", type=int, default=[256])
    parser.add_argument("--modes", nargs="+", help="default: all")
    parser.add_argument("--repeats", type=int, default=10, help="groups of ten runs")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda",
                        help="cpu: not a speed, only whether it runs")
    parser.add_argument("--small", action="store_true", help="few layers, small images")
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
                    run = build(chosen.model, precision, count, mode, chosen.device, chosen.small)
                    times = (measure(run, 30, chosen.repeats) if chosen.device == "cuda"
                             else measure_on_cpu(run, chosen.repeats))
                except (RuntimeError, ImportError, torch.cuda.OutOfMemoryError) as error:
                    print(f"{mode} at batch {count}: {str(error).splitlines()[0]}", flush=True)
                    continue
                report(chosen.model, chosen.task, precision, count, mode, chosen.device, times)


if __name__ == "__main__":
    main()
