#!/usr/bin/env python3
"""Checks every #include against the layers of the tree: a folder may include only what the table allows it.

Exit code 1 and one line per violation: file:line, what was included, which rule it breaks.
"""
import argparse
import pathlib
import re
import sys

# Folder -> folders whose headers it may include, besides its own. Layers, from top to bottom:
# tools -> capi -> models, datasets -> train -> nn, optim, data, runtime -> passes, backend -> comm, ops -> graph -> base
BASE = ["sdk/base"]
GRAPH = BASE + ["sdk/graph"]
OPS = GRAPH + ["sdk/ops"]
LOW = OPS + ["sdk/comm", "sdk/passes", "sdk/backend"]
MIDDLE = LOW + ["sdk/nn", "sdk/optim", "sdk/data", "sdk/runtime"]
TRAIN = MIDDLE + ["sdk/train"]
ALL_SDK = TRAIN + ["models", "datasets"]
ALLOWED = {
    "sdk/base": [],
    "sdk/graph": BASE,
    "sdk/ops": GRAPH,
    "sdk/passes": OPS,
    "sdk/comm": GRAPH,
    "sdk/backend": OPS + ["sdk/comm"],
    "sdk/nn": LOW,
    "sdk/optim": LOW,
    "sdk/data": LOW,
    "sdk/runtime": LOW,
    "sdk/train": MIDDLE,
    "models": TRAIN,
    "datasets": TRAIN,
    "capi/include": [],
    "capi/examples": ["capi/include"],
    "capi/bindings": ["capi/include"],
    "capi/src": ALL_SDK + ["capi/include"],
    "tools/bench": ALL_SDK + ["capi/include"],  # measures the engine from inside; never installed (decision 0002)
    "tools": ["capi/include", "recipes"],
    "recipes": [],
    "tests": [],  # nobody else may include it; it may see everything
}
# The folders of recipe-run in their order: each may include those before it.
RECIPE_RUN = ["util", "stats", "recipe", "record", "judge", "report", "run", "assay", "cli"]
# Headers of vendors stay where their device is.
VENDOR = re.compile(r"^(dnnl|omp|cuda|cudnn|cublas|nccl|mpi|cub/|thrust/)")
VENDOR_ALLOWED = ("sdk/backend/", "tools/bench/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path: str) -> str | None:
    """The longest folder of the table that holds the path."""
    matches = [folder for folder in ALLOWED if path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def recipe_run_problem(path: str, target: str) -> str | None:
    """What is wrong with an include between two folders of recipe-run."""
    own, other = (re.match(r"tools/recipe_run/(\w+)/", name) for name in (path, target))
    if own is None or other is None:
        return None
    for folder in (own[1], other[1]):
        if folder not in RECIPE_RUN:
            return f"recipe-run's folder {folder} has no place in the order"
    if RECIPE_RUN.index(other[1]) > RECIPE_RUN.index(own[1]):
        return f"{own[1]} stands before {other[1]} and may not include {target}"
    return None


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    problems = []
    files = [p for ext in ("h", "cpp", "c", "cu") for top in ("sdk", "models", "datasets", "capi", "tools")
             for p in (root / top).rglob("*." + ext)]
    for file in sorted(files):
        path = file.relative_to(root).as_posix()
        own = folder_of(path)
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            kind, target = match.groups()
            if kind == "<" and VENDOR.match(target) and not path.startswith(VENDOR_ALLOWED):
                problems.append(f"{path}:{number}: <{target}> belongs under sdk/backend")
            if target.startswith("assay/"):
                target = "capi/include/" + target
            if problem := recipe_run_problem(path, target):
                problems.append(f"{path}:{number}: {problem}")
            other = folder_of(target)
            if other is None or own is None or other == own or other in ALLOWED[own]:
                continue
            problems.append(f"{path}:{number}: {own} may not include {target}")
    print("\n".join(problems) if problems else f"layers: {len(files)} files, no include points upwards")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
