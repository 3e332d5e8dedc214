#!/usr/bin/env python3
"""What a plan for an H200 would cost: launches, bytes that move through its memory, and an estimate of the time.

  assay-bench-step --device h200-plan --model resnet50 --precision amp-fp16 --batch 256 --plan >plan.txt
  plan_cost.py plan.txt --precision amp-fp16 --batch 256            a table, by kind of kernel
  plan_cost.py --program assay-bench-step --golden LIST [--update]  plans LIST's cases and compares

Nothing is measured. Bytes count every operand of every launch once, so passes over a tensor count each. The floor of a
launch is the larger of its operations at 790 TFLOP/s (16 bits; 395 in TF32) and its bytes at 4.3 TB/s; the estimate
takes shares of these that such kernels reach, and 2 us for each launch. Attention by cuDNN is taken at 200 TFLOP/s
forwards and 150 backwards, the middle of what is expected for heads of 64 and sequences of 128 to 512; our own kernels
compute outside of tensor cores. Planning it takes NVRTC and a driver, or in its place, first in LD_LIBRARY_PATH, the
folder planning_driver that is built for the tests. Lines of LIST: case (model/task/precision/batch), launches, GB,
floor in ms, estimate in ms, samples a second. A plan that costs more or less than listed fails: after a change that is
meant, --update.
"""

import argparse
import collections
import math
import pathlib
import re
import subprocess
import sys

SIZES = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u8": 1}
BANDWIDTH, VECTOR_FLOPS = 4.3e12, 67e12
TENSOR_FLOPS = {"amp-fp16": 790e12, "amp-bf16": 790e12, "tf32": 395e12, "fp32": VECTOR_FLOPS}
LAUNCH = 2e-6
# Kind: (of the arithmetic, of the bandwidth), as shares of what the device reaches at best.
SHARES = {"convolution": (0.68, 0.80), "product": (0.70, 0.80), "own": (1.0, 0.85),
          "own attention": (0.35, 0.80), "attention": (200 / 790, 0.80), "attention_grad": (150 / 790, 0.80)}
RUNS_OF_LAUNCH, CASTS_OF_LAUNCH, NORMS_OF_LAUNCH = 64, 120, 80  # kernels.h
CASES = {  # case: options of assay-bench-step beside precision and batch
    "resnet50/train/amp-fp16/256": "--model resnet50",
    "resnet50/train/tf32/256": "--model resnet50",
    "unet_medical/train/amp-fp16/8": "--model unet_medical",
    "resnet50, determinism off/train/amp-fp16/256": "--model resnet50 --nondeterministic",
    "unet_medical, determinism off/train/amp-fp16/8": "--model unet_medical --nondeterministic",
    "efficientdet_d0/train/amp-fp16/128": "--model efficientdet_d0",
    "bert_base/train/amp-fp16/96": "--model bert_base --sequence-length 128 --prediction-slots 20 --optimizer adamw",
    "electra_base_pretraining/train/amp-fp16/176":
        "--model electra_base_pretraining --sequence-length 128 --prediction-slots 19 --optimizer adamw",
    "bert_base_squad/train/amp-fp16/32":
        '--model bert_base --config {"head":"span"} --sequence-length 384 --optimizer adamw',
    "bert_base_squad_packed/train/amp-fp16/32":
        '--model bert_base --config {"head":"span"} --sequence-length 384 --tokens 170 --optimizer adamw',
}


class Value:
    def __init__(self, dtype, dims, moves):
        self.dims = dims
        self.elements = math.prod(dims)
        self.element_bytes = SIZES[dtype]
        self.bytes = self.elements * self.element_bytes
        self.moves = moves  # lies in the arena: a store of it is a copy


class Node:
    """One line of a plan."""

    def __init__(self, line, values):
        outputs, rest = line.split(" = ", 1)
        self.op, rest = rest.split("(", 1)
        inputs, rest = rest.split(")", 1)
        self.attributes, rest = rest.rsplit("} : ", 1)
        types, self.kernel = rest.rsplit("  [", 1)
        self.kernel = self.kernel.rstrip("]")
        self.x = [values[name] for name in re.findall(r"%\d+", inputs)]
        found = re.findall(r"\b(f32|f16|bf16|i64|i32|u8)\[([\d,]*)\]", re.split(r"  #| @", types)[0])
        # Gradients that lie where they are stored have no place in the arena.
        moves = len(re.findall(r" @\d+", types)) == len(found)
        self.y = [Value(dtype, [int(n) for n in dims.split(",")] if dims else [], moves) for dtype, dims in found]
        # The gradient of a slice lies nowhere but in the part that was cut out.
        inside = re.search(r" at \[[\d,]+\] of \[([\d,]+)\]", types)
        if inside:
            self.y[0].bytes = math.prod(int(n) for n in inside[1].split(",")) * self.y[0].element_bytes
        values.update(zip(re.findall(r"%\d+", outputs), self.y))

    def flag(self, name):
        return f"{name}=true" in self.attributes

    def numbers(self, name):
        return [int(n) for n in re.search(rf"\b{name}=\[([-\d,]+)\]", self.attributes)[1].split(",")]

    @property
    def traffic(self):
        return sum(v.bytes for v in self.x) + sum(v.bytes for v in self.y)


class Launch(collections.namedtuple("Launch", "what kind flops bytes count")):
    def __new__(cls, what, kind, flops, moved, count=1):
        return super().__new__(cls, what, kind, flops, moved, count)


def read_of_image(x, filters, y):
    """What a convolution reads of x: by 1x1 windows the pixels under them, which a stride leaves others between."""
    return x.bytes if filters[1:3] != [1, 1] else y.elements // y.dims[3] * x.dims[3] * x.element_bytes


def convolution(n):
    """The call of cuDNN, then passes of our own for what it does not take along."""
    x, y = n.x[0], n.y[0]
    filled = 0  # bytes that a copy of x has more
    if "own:fill_pixels" in n.kernel:
        filled = 16 * x.elements // x.dims[-1] - x.bytes
        yield Launch("pixels of 16 bytes", "own", 0, 2 * x.bytes + filled, 2)
    if n.op == "conv2d_grad_weight":
        filters = n.numbers("w_dims")
        dw = math.prod(filters)
        yield Launch(n.op, "convolution", 2 * n.x[1].elements * math.prod(filters[1:]),
                     read_of_image(x, filters, n.x[1]) + filled + n.x[1].bytes + 2 * dw)
        if "own:channel_sums" in n.kernel:
            yield Launch("sums of channels", "own", 0, n.x[1].bytes)
        return
    of_filter = math.prod(n.x[1].dims[1:])
    behind = n.kernel.split("cudnn:")[1]
    own_derivative = n.op == "conv2d_grad_data" and "own:" in behind
    unread = n.x[2].bytes if own_derivative else 0
    if n.op == "conv2d":
        unread = x.bytes - read_of_image(x, n.x[1].dims, y)
    whole = Launch(n.op, "convolution", 2 * (y if n.op == "conv2d" else x).elements * of_filter, n.traffic - unread + filled)
    if n.kernel.startswith("own:pointwise"):
        yield Launch("cast of a bias", "own", 0, 0)
    # With the sums of what it writes, a kernel leaves those of parts there, and reads them again.
    parts = re.search(r"workspace=(\d+)$", n.kernel) if n.flag("keep_sums") else None
    if parts:
        whole = whole._replace(bytes=whole.bytes + 2 * int(parts[1]))
    if n.op == "conv2d_grad_data" and n.flag("keep_sums") and "own:" not in behind:
        yield Launch("numbers for cuDNN", "own", 0, 0, 3)
    yield whole
    if "own:norm_sums" in behind:
        yield Launch("batch norm: sums", "own", 0, y.bytes)
    if "own:epilogue" in behind:
        yield Launch("epilogue", "own", 0, 2 * y.bytes)
    if "own:pointwise" in behind or "own:relu_sums" in behind:
        yield Launch("activation's gradient", "own", 0, (3 if own_derivative else 2) * y.bytes)


def gradient_of_norms(n):
    """Everything in one call, which keeps sums of parts as convolutions that sum up do; or step by step."""
    g = n.y[0]
    flops = 2 * n.x[0].elements * math.prod(n.x[1].dims[1:])
    if "own:" not in n.kernel:
        yield Launch("deviations", "own", 0, 0)
        parts = re.search(r"workspace=(\d+)$", n.kernel)
        yield Launch(n.op, "convolution", flops, n.traffic + 2 * int(parts[1]))
        return
    norms = len(n.y) - 1
    yield Launch(n.op, "convolution", flops, n.x[0].bytes + n.x[1].bytes + g.bytes)
    for k in range(norms):
        yield Launch("batch norm: affine", "own", 0, 0)
        yield Launch("batch norm: apply", "own", 0, (3 if k or n.flag("has_residual") else 2) * g.bytes)
    for k in range(norms):
        tensors = 2 if k else 4 + n.flag("has_addend")
        yield Launch("batch norm's gradient: sums", "own", 0, tensors * g.bytes)


def product(n):
    a = n.x[0].dims
    inner = a[0] if n.flag("transpose_a") else a[1]
    operands = sum(x.bytes for x in n.x)
    y = n.y[0].bytes
    # An epilogue of our own reads the product in f32, unless cuBLASLt has added the bias.
    has_wide = "own:epilogue" in n.kernel and not (n.flag("has_bias") and n.x[2].element_bytes < 4)
    product = n.y[0].elements * 4 if has_wide else y
    kept = y if n.flag("keep_pre") and "own:pointwise" not in n.kernel else 0
    is_own = "own:" in n.kernel
    yield Launch(n.op, "product", 2 * n.y[0].elements * inner, operands + product + (0 if is_own else kept))
    if is_own:
        yield Launch("epilogue", "own", 0, product + y + kept)


def attention(n):
    longest = int(re.search(r"longest=(\d+)", n.attributes)[1])
    width = n.x[0].dims[1] // 3
    pairs = 2 * n.x[0].dims[0] * longest * width  # operations of one of its products
    forward = n.op == "attention"
    if "cudnn:" not in n.kernel:
        yield Launch(n.op, "own attention", pairs * (2 if forward else 7), n.traffic, 2 if forward else 4)
        return
    yield Launch("rows of sequences, and of none", "own", 0, 0, 2)
    scores = re.search(r"workspace=(\d+)", n.kernel)
    moved = n.traffic + (2 * int(scores[1]) if scores and not forward else 0)  # kept for sums in a fixed order
    yield Launch(n.op, n.op, pairs * (2 if forward else 5), moved, 1 if forward else 3)


def batch_norm(n):
    size = n.x[0].bytes
    if n.op == "batch_norm":
        for _ in range(2 if n.flag("normalizes_residual") else 1):
            yield Launch("batch norm: sums", "own", 0, n.x[-1].bytes if n.flag("has_sums") else size)
        mask = n.y[-1].bytes if n.flag("keep_mask") else 0
        yield Launch("batch norm: apply", "own", 0, (3 if n.flag("has_residual") else 2) * size + mask)
        return
    if n.flag("has_sums"):
        yield Launch("batch norm's gradient: apply", "own", 0, (5 if n.flag("has_second") else 3) * size)
        return
    masked = n.flag("has_residual") and "activation=none" not in n.attributes
    tensors = (3 if masked or n.flag("has_addend") else 2) + n.flag("has_addend")
    mask = n.x[6].bytes if masked else 0  # y, or a byte for each 16 of it
    yield Launch("batch norm's gradient: sums", "own", 0, tensors * size + mask)
    yield Launch("batch norm's gradient: apply", "own", 0, 3 * size)


def squeezed_batch_norm(n):
    size = n.x[0].bytes
    if n.op == "squeezed_batch_norm":
        yield Launch("batch norm: sums", "own", 0, size)
        yield Launch("batch norm: apply", "own", 0, 2 * size)
        yield Launch("means of images", "own", 0, n.y[0].bytes)
        return
    yield Launch("batch norm's gradient: sums", "own", 0, 2 * size)
    yield Launch("batch norm's gradient: apply", "own", 0, 3 * size)


def store(n):
    if n.flag("accumulate"):
        yield Launch("sum of gradients", "own", 0, 3 * n.y[0].bytes)
    elif n.x[1].moves:
        yield Launch("copy", "own", 0, 2 * n.y[0].bytes)


def norm_of_maxima(n):
    if n.op == "batch_norm_max_pool":
        yield Launch("batch norm: sums", "own", 0, n.x[0].bytes)
        yield Launch("batch norm: maxima", "own", 0, n.x[0].bytes + sum(y.bytes for y in n.y))
        return
    dy, peaks, winners = (x.bytes for x in n.x[5:])
    yield Launch("batch norm's gradient: sums", "own", 0, dy + peaks)
    yield Launch("batch norm's gradient: gather", "own", 0, 2 * n.x[0].bytes + dy + winners)


def pool_gradient(n):
    if n.op == "max_pool_grad" and "2x2" not in n.kernel:
        yield Launch("max pool: position", "own", 0, n.x[0].bytes + 2 * n.x[1].elements)
        yield Launch("max pool: gather", "own", 0, 2 * n.x[1].elements + n.x[1].bytes + n.y[0].bytes)
        return
    yield Launch(n.op, "own", 0, n.traffic)


def lists_of(n):
    return math.ceil(len(n.y if n.op == "clip_gradients" else n.x) / RUNS_OF_LAUNCH)


def rows_gradient(n):
    passes = math.ceil(math.log2(max(n.y[0].dims[0], 2)) / 8)
    yield Launch(n.op, "own", 0, n.traffic, 6 + 3 * passes)


# What is not here is one pass over its operands.
COSTS = {
    "conv2d": convolution, "conv2d_transpose": convolution, "conv2d_grad_data": convolution,
    "conv2d_grad_weight": convolution, "conv2d_grad_norm": gradient_of_norms, "matmul": product, "attention": attention, "attention_grad": attention,
    "batch_norm": batch_norm, "batch_norm_grad": batch_norm, "store": store, "max_pool_grad": pool_gradient,
    "batch_norm_max_pool": norm_of_maxima, "batch_norm_max_pool_grad": norm_of_maxima,
    "squeezed_batch_norm": squeezed_batch_norm, "squeezed_batch_norm_grad": squeezed_batch_norm,
    "gather_rows": lambda n: [Launch(n.op, "own", 0, 2 * n.y[0].bytes)], "gather_rows_grad": rows_gradient,
    "layer_norm_grad": lambda n: [Launch(n.op, "own", 0, n.traffic, 2)],
    "softmax_cross_entropy": lambda n: [Launch(n.op, "own", 0, n.traffic, 2)],
    "sigmoid_cross_entropy": lambda n: [Launch(n.op, "own", 0, n.traffic, 2)],
    "casts": lambda n: [Launch(n.op, "own", 0, n.traffic, math.ceil(len(n.x) / CASTS_OF_LAUNCH))],
    "running_statistics": lambda n: [Launch(n.op, "own", 0, n.traffic, math.ceil(len(n.x) // 4 / NORMS_OF_LAUNCH))],
    "gradient_norm": lambda n: [Launch(n.op, "own", 0, sum(x.bytes for x in n.x), lists_of(n) + 1)],
    "clip_gradients": lambda n: [Launch(n.op, "own", 0, 3 * sum(y.bytes for y in n.y), 3 * lists_of(n))],
    "decay_gradients": lambda n: [Launch(n.op, "own", 0, n.traffic + sum(x.bytes for x in n.x) / 2, 2 * lists_of(n) + 1)],
}


def launches_of(plan):
    values = {}
    for line in plan.splitlines():
        if not line.startswith("%"):
            continue
        node = Node(line, values)
        if node.kernel != "none":
            yield from COSTS.get(node.op, lambda n: [Launch(n.op, "own", 0, n.traffic)])(node)


def flops_of(launch, precision):
    return VECTOR_FLOPS if launch.kind in ("own attention", "own") else TENSOR_FLOPS[precision]


def floor_of(launch, precision):
    return max(launch.flops / flops_of(launch, precision), launch.bytes / BANDWIDTH)


def estimate_of(launch, precision):
    arithmetic, bandwidth = SHARES[launch.kind]
    seconds = max(launch.flops / (flops_of(launch, precision) * arithmetic), launch.bytes / (BANDWIDTH * bandwidth))
    return seconds + LAUNCH * launch.count


class Cost:
    def __init__(self, launches, precision):
        self.count = sum(launch.count for launch in launches)
        self.bytes = sum(launch.bytes for launch in launches)
        self.floor = sum(floor_of(launch, precision) for launch in launches)
        self.estimate = sum(estimate_of(launch, precision) for launch in launches)

    def text(self, batch):
        return (f"{self.count}\t{self.bytes / 1e9:.1f}\t{self.floor * 1e3:.1f}\t{self.estimate * 1e3:.1f}\t"
                f"{batch / self.estimate:.0f}")


def print_table(plan, precision, batch):
    kinds = collections.defaultdict(list)
    for launch in launches_of(plan):
        kinds[launch.what].append(launch)
    kinds["sum"] = [launch for launches in list(kinds.values()) for launch in launches]
    print("\t".join(["launches", "GB", "floor ms", "ms", "a second", "what"]))
    for what, launches in sorted(kinds.items(), key=lambda row: Cost(row[1], precision).estimate):
        print(f"{Cost(launches, precision).text(batch)}\t{what}")


def listed_text(program):
    lines = []
    for case, options in CASES.items():
        _, task, precision, batch = case.split("/")
        command = [program, "--device", "h200-plan", *options.split(" "), "--mode", task, "--precision", precision,
                   "--batch", batch, "--plan"]
        plan = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines.append(f"{case}\t{Cost(list(launches_of(plan)), precision).text(int(batch))}\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", nargs="?", type=pathlib.Path)
    parser.add_argument("--precision", choices=TENSOR_FLOPS, default="amp-fp16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--program")
    parser.add_argument("--golden", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    chosen = parser.parse_args()
    if chosen.plan:
        return print_table(chosen.plan.read_text(), chosen.precision, chosen.batch)
    found = listed_text(chosen.program)
    if chosen.update:
        chosen.golden.write_text(found)
    if found == chosen.golden.read_text():
        print(found, end="")
        return 0
    print(f"{chosen.golden} says:\n{chosen.golden.read_text()}and the plans cost:\n{found}", end="")
    return 1


sys.exit(main())
