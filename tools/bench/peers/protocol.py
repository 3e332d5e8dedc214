"""What all opponents share: arguments, shapes, timing, and the line of JSON they print."""

import argparse
import json
import os
import resource
import statistics
import sys
import time
from typing import NamedTuple

# model: (height and width, channels, classes, training batch)
SHAPES = {"cnn": (28, 1, 10, 128), "resnet18": (32, 3, 10, 64), "resnet50": (224, 3, 1000, 16)}
INFERENCE_BATCHES = {"cnn": (1, 64), "resnet18": (1, 64), "resnet50": (1, 16)}


class Text(NamedTuple):
    """A text model: ours with its configuration, tokens and masked words of a sequence, sequences of a batch."""
    model: str
    config: str
    length: int
    slots: int
    training: tuple
    inference: tuple


TEXTS = {
    "bert_base": Text("bert_base", "{}", 128, 20, (8,), ()),
    "bert_base_512": Text("bert_base", "{}", 512, 80, (), ()),
    "electra_base_pretraining": Text("electra_base_pretraining", "{}", 128, 19, (8,), ()),
    "electra_base_pretraining_512": Text("electra_base_pretraining", "{}", 512, 79, (), ()),
    "bert_base_squad": Text("bert_base", '{"head": "span"}', 384, 0, (2,), (1,)),
    "bert_base_squad128": Text("bert_base", '{"head": "span"}', 128, 0, (), (1, 8)),
}


PUBLISHED_BATCHES = {"unet_medical": ((1,), (1,)), "efficientdet_d0": ((4,), (1, 4))}  # of training, of inference


def batches(name, task):
    if name in TEXTS:
        return TEXTS[name].training if task == "train" else TEXTS[name].inference
    if name in PUBLISHED_BATCHES:
        return PUBLISHED_BATCHES[name][task == "infer"]
    return (SHAPES[name][3],) if task == "train" else INFERENCE_BATCHES[name]


def arguments(description, precisions, modes, models=SHAPES):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=30, help="timed runs of each case")
    parser.add_argument("--models", nargs="+", default=list(models), choices=list(models))
    parser.add_argument("--task", default="train", choices=["train", "infer"],
                        help="where a script has both")
    parser.add_argument("--precisions", nargs="+", default=precisions, choices=precisions)
    parser.add_argument("--batches", nargs="+", type=int, help="default: the protocol's")
    parser.add_argument("--modes", nargs="+", default=modes, choices=modes)
    parser.add_argument("--keep-malloc", action="store_true",
                        help="leave the C library's allocator as it is")
    chosen = parser.parse_args()
    prepare_process(chosen)
    return chosen


def prepare_process(chosen):
    """Thread count and allocator can only be set before the libraries load: start again with them.

    By default glibc may return large buffers to the system and fault their pages in again on the
    next step.  An opponent must not lose to that.
    """
    wanted = {"OMP_NUM_THREADS": str(chosen.threads)}
    if not chosen.keep_malloc:
        wanted |= {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
                   "MALLOC_TOP_PAD_": str(1 << 26)}
    if any(os.environ.get(key) != value for key, value in wanted.items()):
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def measure(run, repeats, warm_up_seconds=1.0):
    """Wall time of `run` in ms, after at least 3 runs and `warm_up_seconds` of warming up."""
    start, runs = time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - start < warm_up_seconds:
        run()
        runs += 1
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def on_openvino(model, inputs, threads, precision):
    """A call that answers with OpenVINO, of the ONNX `model` (a path or bytes), and its version; shapes are the inputs'."""
    import openvino
    core = openvino.Core()
    network = core.read_model(model)
    network.reshape({name: list(value.shape) for name, value in inputs.items()})
    compiled = core.compile_model(network, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision]})
    request = compiled.create_infer_request()
    return lambda: request.infer(inputs), openvino.__version__.split("-")[0]


def percentile(times, share):
    """Linear between the two nearest order statistics."""
    times = sorted(times)
    position = share * (len(times) - 1)
    low = int(position)
    high = min(low + 1, len(times) - 1)
    return times[low] + (position - low) * (times[high] - times[low])


def report(peer, mode, case, times, version):
    """One line of JSON; `case` is (model, train or infer, precision, batch, threads)."""
    model, task, precision, batch, threads = case
    print(json.dumps(dict(
        name=f"{model}/{task}/{precision}/{batch}", peer=peer, mode=mode,
        median_ms=round(statistics.median(times), 4), p10=round(percentile(times, 0.1), 4),
        p90=round(percentile(times, 0.9), 4), repeats=len(times), threads=threads,
        version=version,
        max_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)), flush=True)
