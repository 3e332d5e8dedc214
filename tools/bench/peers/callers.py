#!/usr/bin/env python3
"""Latency of batch 1 while several threads ask at once: Assay, OpenVINO and ONNX Runtime in turn, as a Markdown table.

  callers.py --ours build/release/bin/assay-bench-step

One caller has all threads for its call. Of several callers each has one thread for its call, as many calls at a time as
there are threads: OpenVINO by streams, the others by the operating system.
"""

import argparse
import datetime
import json
import resource
import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np

import compare
import onnx_infer
import protocol

WARM_RUNS = 5


def make_calls(peer, model, images, threads, callers, precision):
    """One function for each caller, and the version."""
    alone = callers == 1
    if peer == "onnxruntime":
        run, version = onnx_infer.on_onnxruntime(model, images, threads if alone else 1, precision, "all")
        return [run] * callers, version
    import openvino
    core = openvino.Core()
    network = core.read_model(model)
    network.reshape({"x": list(images.shape)})
    compiled = core.compile_model(network, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1 if alone else threads,
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision]})

    def caller():
        request = compiled.create_infer_request()
        return lambda: request.infer({"x": images})
    return [caller() for _ in range(callers)], openvino.__version__.split("-")[0]


def measure(calls, repeats):
    """Milliseconds of every call from when each caller has warmed up until each has done `repeats`."""
    warm, left, lock, times = threading.Barrier(len(calls)), [len(calls)], threading.Lock(), []

    def ask(call):
        mine = []
        warm.wait()
        while left[0] > 0:
            begin = time.perf_counter()
            call()
            mine.append((time.perf_counter() - begin) * 1e3)
            if len(mine) == repeats:
                with lock:
                    left[0] -= 1
        with lock:
            times.extend(mine)

    for call in calls * WARM_RUNS:  # one after another: OpenVINO's bindings hang where two threads make the first call
        call()
    askers = [threading.Thread(target=ask, args=[call]) for call in calls]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    return times


def run_peer(chosen):
    protocol.prepare_process(argparse.Namespace(threads=chosen.threads, keep_malloc=False))
    [name], [precision], [callers] = chosen.models, chosen.precisions, chosen.callers
    size, channels, classes, _ = protocol.SHAPES[name]
    images = np.random.default_rng(2).standard_normal((1, channels, size, size), np.float32)
    calls, version = make_calls(chosen.peer, onnx_infer.MODELS[name](size, channels, classes), images,
                                chosen.threads, callers, precision)
    times = measure(calls, chosen.repeats)
    print(json.dumps(dict(
        name=f"{name}/infer/{precision}/1", peer=chosen.peer, version=version, callers=callers,
        median_ms=statistics.median(times), p90=protocol.percentile(times, 0.9),
        p99=protocol.percentile(times, 0.99),
        max_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))


def command(chosen, side, name, precision, callers):
    if side == "ours":
        threads = chosen.threads if callers == 1 else 1
        return [chosen.ours, "--json", "--mode", "infer", "--batch", "1", "--model", name, "--precision", precision,
                "--callers", str(callers), "--threads", str(threads), "--repeats", str(chosen.repeats)]
    return [sys.executable, Path(__file__), "--peer", side, "--models", name, "--precisions", precision,
            "--callers", str(callers), "--threads", str(chosen.threads), "--repeats", str(chosen.repeats)]


def cell(results):
    return ", ".join(f"{statistics.median(r[key] for r in results):.3g}" for key in ("median_ms", "p90", "p99"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", help="path of assay-bench-step")
    parser.add_argument("--peer", choices=["onnxruntime", "openvino"], help="measure this one here, one case")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=100, help="timed calls of each caller")
    parser.add_argument("--models", nargs="+", default=list(protocol.SHAPES), choices=list(protocol.SHAPES))
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--callers", nargs="+", type=int, default=[1, 2, 8])
    return parser.parse_args()


def main():
    chosen = parse()
    if chosen.peer:
        return run_peer(chosen)
    print(f"{datetime.date.today()}, {compare.machine()}, {chosen.threads} threads, {chosen.rounds} rounds; ms: p50, p90, p99\n")
    print("| case | callers | Assay | OpenVINO | ONNX Runtime |\n" + "|---" * 5 + "|", flush=True)
    for name in chosen.models:
        for precision in chosen.precisions:
            for callers in chosen.callers:
                sides = ["ours", "openvino"] + ["onnxruntime"] * (precision == "fp32")
                results = {side: [] for side in sides}
                for turn in range(chosen.rounds):
                    for side in sides[:: 1 if turn % 2 == 0 else -1]:
                        results[side].append(compare.run_json(command(chosen, side, name, precision, callers)))
                cells = [cell(results[side]) if side in results else "" for side in ("ours", "openvino", "onnxruntime")]
                print(f"| {name}/infer/{precision}/1 | {callers} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
