#!/usr/bin/env python3
"""Seconds to read and to score COCO's results: Assay and pycocotools in turn, on one thread.

Makes up detections of as many images as COCO's validation set has, 100 in each, over 80 categories. Every round runs
detection_bench and pycocotools on the same files; both must give the same twelve numbers, to the last bit. Prints a Markdown
table of medians.
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/fixtures/detection_scores"))


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def scored(evaluation):
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation.stats.tolist()


def theirs(instances, results):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    with contextlib.redirect_stdout(io.StringIO()):
        truth_seconds, truth = timed(lambda: COCO(instances))
        read_seconds, found = timed(lambda: truth.loadRes(results))
        seconds, scores = timed(lambda: scored(COCOeval(truth, found, "bbox")))
    return {"read_instances": truth_seconds, "read_results": read_seconds, "score": seconds, "scores": scores}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="path of detection_bench")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    from make_scores import made_up
    truth, found = made_up(1, images=arguments.images, categories=80, objects=7, found=100, score_levels=1 << 30, crowd_share=0.01)
    rounds = {"Assay": [], "pycocotools": []}
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("instances.json", "results.json")]
        for path, content in zip(files, (truth, found)):
            with open(path, "w") as file:
                json.dump(content, file)
        for _ in range(arguments.rounds):
            ours = subprocess.run([arguments.ours, *files], check=True, capture_output=True, text=True)
            rounds["Assay"].append(json.loads(ours.stdout))
            rounds["pycocotools"].append(theirs(*files))
            if rounds["Assay"][-1]["scores"] != rounds["pycocotools"][-1]["scores"]:
                sys.exit(f"other scores: {rounds['Assay'][-1]['scores']} and {rounds['pycocotools'][-1]['scores']}")
    print(f"{len(found)} detections in {arguments.images} images, medians of {arguments.rounds} rounds, seconds\n")
    print("| | Assay | pycocotools | times |\n|---|---|---|---|")
    for part in ("read_instances", "read_results", "score"):
        a, b = (statistics.median(run[part] for run in rounds[peer]) for peer in rounds)
        print(f"| {part.replace('_', ' ')} | {a:.3f} | {b:.2f} | {b / a:.1f} |")


if __name__ == "__main__":
    main()
