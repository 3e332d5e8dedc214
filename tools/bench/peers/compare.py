#!/usr/bin/env python3
"""Times Assay and its opponents in turn and prints a Markdown table; README.md has the protocol.

  compare.py --ours build/tools/bench/assay-bench-step      both sides
  compare.py                                                the opponents alone
"""

import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import protocol

HERE = Path(__file__).resolve().parent
MOST_DISTURBANCE, MOST_RUNS = 0.03, 4
SCRIPTS = {  # (task, precision): opponents, each with the modes it may choose its fastest from
    ("train", "fp32"): [("pytorch_train_step.py", ["eager", "eager-fused", "compile"])],
    ("train", "bf16"): [("pytorch_train_step.py", ["eager", "eager-fused", "compile"])],
    ("infer", "fp32"): [("onnx_infer.py", ["all", "extended"]), ("onnx_infer.py", ["openvino"]),
                        ("pytorch_infer.py", ["eager", "jit", "compile"])],
    ("infer", "bf16"): [("onnx_infer.py", ["openvino"]),
                        ("pytorch_infer.py", ["eager", "jit", "compile"])],
}
PYTORCH_TEXT = ("pytorch_text.py", ["eager", "compile"])
TEXT_SCRIPTS = {
    ("train", "fp32"): [PYTORCH_TEXT],
    ("train", "bf16"): [PYTORCH_TEXT],
    ("infer", "fp32"): [("exported_text.py", ["onnxruntime"]), ("exported_text.py", ["openvino"]),
                        PYTORCH_TEXT],
    ("infer", "bf16"): [("exported_text.py", ["openvino"]), PYTORCH_TEXT],
}
PUBLISHED_IMAGES = "published_images.py"
PUBLISHED_SCRIPTS = {
    ("train", "fp32"): [(PUBLISHED_IMAGES, ["eager", "compile"])],
    ("train", "bf16"): [(PUBLISHED_IMAGES, ["eager", "compile"])],
    ("infer", "fp32"): [(PUBLISHED_IMAGES, ["onnxruntime"]), (PUBLISHED_IMAGES, ["openvino"]),
                        (PUBLISHED_IMAGES, ["eager", "jit", "compile"])],
    ("infer", "bf16"): [(PUBLISHED_IMAGES, ["openvino"]), (PUBLISHED_IMAGES, ["eager", "jit", "compile"])],
}


def scripts_of(model, task, precision):
    if model in protocol.TEXTS:
        return TEXT_SCRIPTS[task, precision]
    return (PUBLISHED_SCRIPTS if model in protocol.PUBLISHED_BATCHES else SCRIPTS)[task, precision]


def busy_seconds():
    """CPU time of the whole machine since it started, time stolen by its host included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    mine, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def run_json(command):
    """The last line of JSON a program prints; one that was disturbed is run again, not averaged in.

    Disturbed: others took more than MOST_DISTURBANCE of the machine's CPU time meanwhile.  After MOST_RUNS
    the least disturbed run counts, and a line says so.
    """
    tries = []
    for _ in range(MOST_RUNS):
        start, before = time.perf_counter(), busy_seconds() - own_seconds()
        done = subprocess.run(command, capture_output=True, text=True)
        others = busy_seconds() - own_seconds() - before
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            raise SystemExit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n"
                             f"{done.stderr.strip()[-2000:]}")
        tries.append((others / ((time.perf_counter() - start) * os.cpu_count()), lines[-1]))
        if tries[-1][0] <= MOST_DISTURBANCE:
            break
    share, line = min(tries)
    if share > MOST_DISTURBANCE:
        print(f"{json.loads(line)['name']}: others took {share:.0%} of the processor in the quietest of {MOST_RUNS} runs",
              file=sys.stderr, flush=True)
    return json.loads(line)


def run_ours(chosen, case):
    model, task, precision, batch = case
    repeats = chosen.repeats * (10 if batch == 1 else 1)  # as the opponents do by themselves
    network = ["--model", model]
    if model in protocol.TEXTS:
        text = protocol.TEXTS[model]
        network = ["--model", text.model, "--config", text.config, "--optimizer", "adamw",
                   "--sequence-length", str(text.length)]
        if text.slots:
            network += ["--prediction-slots", str(text.slots)]
    return run_json([chosen.ours, "--json", *network, "--precision", precision, "--mode",
                     task, "--batch", str(batch), "--threads", str(chosen.threads), "--repeats",
                     str(repeats)])


def run_peer(chosen, case, script, mode):
    model, task, precision, batch = case
    return run_json([chosen.python, HERE / script, "--task", task, "--models", model,
                     "--precisions", precision,
                     "--batches", str(batch), "--threads", str(chosen.threads), "--repeats",
                     str(chosen.repeats), "--modes", mode])


def fastest_mode(chosen, case, script, modes):
    """Every mode is tried twice, in turn; its better median counts: one disturbance is forgiven."""
    best = {}
    for _ in range(2 if len(modes) > 1 else 0):
        for mode in modes:
            time = run_peer(chosen, case, script, mode)["median_ms"]
            best[mode] = min(time, best.get(mode, time))
    return min(best, key=best.get) if best else modes[0]


def cases(chosen):
    for task in chosen.tasks:
        for model in chosen.models:
            for precision in chosen.precisions:
                for batch in protocol.batches(model, task):
                    yield model, task, precision, batch


def alternate(chosen, case):
    """Results of every side, one per round: ours first in even rounds, last in odd ones."""
    sides = {}
    for script, modes in scripts_of(*case[:3]):
        modes = [mode for mode in modes if mode not in chosen.skip_modes]
        if not modes:
            continue
        mode = fastest_mode(chosen, case, script, modes)
        sides[script, mode] = lambda s=script, m=mode: run_peer(chosen, case, s, m)
    if not sides:
        sys.exit(f"compare.py: without the modes {' '.join(chosen.skip_modes)} {'/'.join(map(str, case))} has no opponent: "
                 "leave one of them out of --skip-modes.")
    if chosen.ours:
        sides = {"ours": lambda: run_ours(chosen, case), **sides}
    results = {side: [] for side in sides}
    for turn in range(chosen.rounds):
        for side in list(sides)[:: 1 if turn % 2 == 0 else -1]:
            results[side].append(sides[side]())
    return results


def milliseconds(rounds):
    middle = statistics.median(r["median_ms"] for r in rounds)
    return f"{middle:.3g} ({min(r['p10'] for r in rounds):.3g})"


def mebibytes(rounds):
    return str(max(r["max_rss_mib"] for r in rounds))


def row(case, results):
    """The fastest opponent beside ours; the ratio is taken round by round, so slow drifts cancel."""
    ours = results.pop("ours", None)
    theirs = min(results.values(), key=lambda rounds: statistics.median(r["median_ms"] for r in rounds))
    cells = ["/".join(map(str, case)), f"{theirs[0]['peer']} {theirs[0]['version']}", theirs[0]["mode"],
             milliseconds(theirs), mebibytes(theirs)]
    if ours:
        ratios = sorted(t["median_ms"] / o["median_ms"] for o, t in zip(ours, theirs))
        cells += [milliseconds(ours), mebibytes(ours), f"{statistics.median(ratios):.3g}",
                  f"{ratios[0]:.3g} to {ratios[-1]:.3g}"]
    return cells


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line]
    return f"{names[0] if names else 'unknown CPU'}, {len(os.sched_getaffinity(0))} CPUs"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", help="path of assay-bench-step")
    parser.add_argument("--python", default=sys.executable, help="interpreter with the opponents")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=10, help="timed runs per side and round")
    parser.add_argument("--models", nargs="+", default=list(protocol.SHAPES),
                        choices=[*protocol.SHAPES, *protocol.PUBLISHED_BATCHES, *protocol.TEXTS])
    parser.add_argument("--tasks", nargs="+", default=["train", "infer"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--skip-modes", nargs="+", default=[], help="for example: compile")
    parser.add_argument("--json", help="file to append every measurement to, a line of JSON each")
    return parser.parse_args()


def main():
    chosen = parse()
    load = os.getloadavg()[0]
    header = ["case", "fastest opponent", "its fastest mode", "its ms", "its MiB"]
    if chosen.ours:
        header += ["ours ms", "our MiB", "theirs / ours", "over the rounds"]
    print(f"{datetime.date.today()}, {machine()}, {chosen.threads} threads, {chosen.rounds} rounds "
          f"of {chosen.repeats}, load {load:.1f} at the start; "
          f"`{' '.join(['compare.py', *sys.argv[1:]])}`\n")
    print("Times: median over the rounds (in brackets the quietest round's 10th percentile). "
          "MiB: the process at its largest.\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header), flush=True)
    for case in cases(chosen):
        results = alternate(chosen, case)
        if chosen.json:
            with open(chosen.json, "a") as file:
                file.writelines(json.dumps(result) + "\n" for rounds in results.values() for result in rounds)
        print("| " + " | ".join(row(case, results)) + " |", flush=True)


if __name__ == "__main__":
    main()
