#!/usr/bin/env bash
# Everything worth doing when a GPU is at hand: GPU tests, compute-sanitizer, recipes, speed beside PyTorch. Prints one
# table, writes JSON (tools/bench/results/gpu_check.schema.json). Runs a prebuilt tree (tools/portable.sh) or a build
# folder; builds nothing.
#
#   tools/gpu_check.sh [options]
#     --bin FOLDER        the programs (default: bin of a portable tree, or build/test/bin)
#     --out FILE          results (default gpu_check.json)
#     --steps LIST        of: tests sanitizer recipes bench peers (default all)
#     --batches LIST      training batches (default "64 128 256 512"); inference takes 1 8 32 128 256
#     --precisions LIST   default "tf32 amp-fp16 amp-bf16"
#     --data FOLDER       converted data sets of the recipes, isbi2012_em and imagenet_64 (default data)
#     --python PROGRAM    interpreter with torch and torchvision (default python3)
#     --dry-run           says what would run and what is missing for it; needs no GPU
#
# steps: tests      every test of the backend on the device
#        sanitizer  the same under compute-sanitizer: memcheck, racecheck, initcheck, synccheck; without whole models
#        recipes    one fold of the published U-Net, 64 images by heart and a smoke run of ResNet-50, on the GPU
#        bench      ResNet-50: steps and predictions with the batch on the device, and steps fed from the host
#        peers      PyTorch beside each of them, in the same minutes
#
# Without a GPU it says why and exits with 77. Exit code 1: something failed. Clocks, power and MIG settings are
# left as they are.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
bin= out=gpu_check.json steps="tests sanitizer recipes bench peers" batches="64 128 256 512" data=$here/data dry=
precisions="tf32 amp-fp16 amp-bf16" python=python3 inference="1 8 32 128 256"
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=yes; shift; continue ;;
    --bin) bin=${2-} ;; --out) out=${2-} ;; --steps) steps=${2-} ;; --batches) batches=${2-} ;;
    --precisions) precisions=${2-} ;; --python) python=${2-} ;; --data) data=${2-} ;;
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown option $1; see --help" >&2; exit 2 ;;
  esac
  shift 2 || { echo "the last option needs a value; see --help" >&2; exit 2; }
done
for step in $steps; do
  case $step in
    tests | sanitizer | recipes | bench | peers) ;;
    *) echo "unknown step $step; see --help" >&2; exit 2 ;;
  esac
done
[ -n "$bin" ] || for folder in "$here/bin" "$here/build/test/bin"; do [ -x "$folder/gpu_test" ] && bin=$folder && break; done
[ -n "$bin" ] || { echo "no gpu_test in bin or build/test/bin: build it, or say --bin" >&2; exit 2; }
bin=$(cd "$bin" && pwd) || exit 2
export ASSAY_SOURCE_DIR=$here # the tests' fixtures
# CUDA's libraries, where the loader does not know them.
for folder in /usr/local/cuda/lib64; do
  [ -d "$folder" ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASSAY_CUDA_PLAN_CACHE=${ASSAY_CUDA_PLAN_CACHE:-$work/plans} # timed choices for the benchmarks
failures=0
: >"$work/rows"
wanted() { case " $steps " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
row() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" | tee -a "$work/rows" | awk -F'\t' '{ printf "%-46s %-8s %s\n", $1, $2, $3 }'; }
# check NAME COMMAND...: one row, ok or FAILED with the log's last lines; in a dry run, what would run.
check() {
  local name=$1 begin=$SECONDS
  shift
  if [ -n "$dry" ]; then
    row "$name" planned "$*"
  elif "$@" >"$work/log" 2>&1; then
    row "$name" ok "$((SECONDS - begin)) s$(grep -o '\[  PASSED  \].*' "$work/log" | sed 's/.*\] */, /')"
  else
    failures=$((failures + 1))
    row "$name" FAILED "the last lines of its output:"
    tail -n 20 "$work/log"
  fi
}
# needs NAME FILE WHAT: false, with a row that says so, if the file is not there.
needs() {
  [ -e "$2" ] && return
  row "$1" skipped "no $2: $3"
  return 1
}

# A test that is skipped on machines without a GPU says why.
reason=
[ -n "$dry" ] || reason=$("$bin/gpu_test" --gtest_filter=Device.MemoryStartsAsZeroAndKeepsWhatIsWritten 2>&1 |
  grep -o 'no CUDA device can be used: .*' | head -1)
if [ -n "$reason" ]; then
  echo "$reason"
  exit 77
fi
gpu_of() { nvidia-smi "--query-gpu=$1" --format=csv,noheader 2>/dev/null | head -1; }
gpu=$(gpu_of name)
echo "GPU: ${gpu:-unknown (nvidia-smi does not answer)} $(gpu_of driver_version) $(gpu_of clocks.sm) $(gpu_of power.draw)"
echo

if wanted tests; then
  # The tests choose without timing: their bits must not depend on a cache.
  ASSAY_CUDA_PLAN_CACHE= check "GPU tests" "$bin/gpu_test" --gtest_brief=1
fi
if wanted sanitizer; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [ -z "$sanitizer" ]; then
    row "compute-sanitizer" skipped "not installed"
  else
    # Deliberately broken accesses stay out; so do whole models, which take too long under the tools.
    for tool in memcheck racecheck initcheck synccheck; do
      ASSAY_CUDA_PLAN_CACHE= check "compute-sanitizer $tool" "$sanitizer" --tool "$tool" --error-exitcode 9 \
        "$bin/gpu_test" --gtest_brief=1 --gtest_filter='-Device.AnIllegal*:*Parity*:Unet*:Conv2d*ProgramsRunAtOnce'
    done
  fi
fi

# recipe RECIPE OPTION...: one run on the GPU.
recipe() {
  local name=$1
  shift
  check "recipe $name" "$bin/recipe-run" --recipes "$here/recipes" run "$name" --device cuda:0 --data "$data" \
    --runs "$work/runs" --quiet "$@"
}
if wanted recipes && needs "recipes" "$bin/recipe-run" "build it"; then
  convert="convert it with dataset-convert, or say --data"
  if needs "recipe unet_medical" "$data/isbi2012_em" "$convert"; then
    recipe unet_medical/dgx_a100_amp_1gpu --seeds 1 --no-bench
  fi
  if needs "recipe resnet50_v15" "$data/imagenet_64" "$convert"; then
    recipe resnet50_v15/overfit_64 --no-bench
    recipe resnet50_v15/dgx_a100_amp_1gpu_90ep --smoke --set data.train.lock=imagenet_64 --set data.val.lock=imagenet_64
  fi
fi

median() { sed -n 's/.*"median_ms": \([0-9.]*\).*/\1/p' <<<"$1"; }
rate() { awk -v n="$1" -v ms="$2" 'BEGIN { printf "%.0f", n / ms * 1000 }'; }
# Images per second of the roofline of one H200 (gpu: 790 TFLOP/s in 16 bits, 395 in TF32, 4.3 TB/s; batch norm fused).
floor_of() { case $1 in tf32) echo 5118 ;; amp-*) echo 10224 ;; *) echo 0 ;; esac; }

# step_times TASK PRECISION BATCH OPTION...: one line of JSON.
step_times() {
  local task=$1 precision=$2 batch=$3
  shift 3
  "$bin/assay-bench-step" --device cuda:0 --json --model resnet50 --mode "$task" --precision "$precision" \
    --batch "$batch" --repeats 20 "$@" 2>"$work/log" | grep '^{'
}

# bench TASK PRECISION BATCH: ours, then the fastest of PyTorch's modes, in the same minute.
bench() {
  local task=$1 precision=$2 batch=$3 name="resnet50/$1/$2/$3" ours theirs= mode=
  if [ -n "$dry" ]; then
    row "$name" planned "$bin/assay-bench-step$(wanted peers && echo ", $python tools/bench/peers/pytorch_cuda.py")"
    return
  fi
  ours=$(step_times "$task" "$precision" "$batch" --resident)
  if [ -z "$ours" ]; then
    failures=$((failures + 1))
    row "$name" FAILED "$(tail -n 1 "$work/log")"
    return
  fi
  echo "$ours" >>"$work/json"
  if wanted peers; then
    "$python" "$here/tools/bench/peers/pytorch_cuda.py" --task "$task" --precisions "$precision" \
      --batches "$batch" 2>"$work/log" | grep '^{' >"$work/peers" || true
    cat "$work/peers" >>"$work/json"
    theirs=$(sed 's/.*"mode": "\([^"]*\)".*"median_ms": \([0-9.]*\).*/\2 \1/' "$work/peers" | sort -n | head -1)
    mode=${theirs#* } theirs=${theirs%% *}
  fi
  local mine floor text
  mine=$(median "$ours")
  floor=$(floor_of "$precision")
  text="$(rate "$batch" "$mine") images/s, $mine ms"
  [ "$task" = train ] && [ "$floor" -gt 0 ] &&
    text+=", $(awk -v r="$(rate "$batch" "$mine")" -v f="$floor" 'BEGIN { printf "%.0f %% of the floor", 100 * r / f }')"
  [ -n "$theirs" ] &&
    text+="; PyTorch $mode $(rate "$batch" "$theirs") images/s, ratio $(awk -v a="$theirs" -v b="$mine" 'BEGIN { printf "%.2f", a / b }')"
  row "$name" measured "$text"
}

# fed PRECISION BATCH: steps on batches of bytes that the host prefetches, beside steps on one that lies there.
fed() {
  local name="resnet50/fed/$1/$2" alone together
  if [ -n "$dry" ]; then
    row "$name" planned "$bin/assay-bench-step --fed"
    return
  fi
  alone=$(step_times train "$1" "$2" --resident)
  together=$(step_times train "$1" "$2" --fed)
  if [ -z "$alone" ] || [ -z "$together" ]; then
    failures=$((failures + 1))
    row "$name" FAILED "$(tail -n 1 "$work/log")"
    return
  fi
  echo "$together" >>"$work/json"
  row "$name" measured "$(median "$together") ms a step fed from the host, $(median "$alone") ms with the batch on the device"
}

if wanted bench && needs "bench" "$bin/assay-bench-step" "build it"; then
  for precision in $precisions; do
    for batch in $batches; do bench train "$precision" "$batch"; done
    for batch in $inference; do bench infer "$precision" "$batch"; done
    fed "$precision" "${batches%% *}"
  done
fi

quoted() { printf '"%s"' "$(sed 's/[\\"]/\\&/g' <<<"${1:-}")"; }
{
  printf '{"schema": 1, "date": "%s", "revision": %s, "dry_run": %s, "failures": %d,\n' "$(date -u +%F)" \
    "$(quoted "$(cat "$here/revision" 2>/dev/null || git -C "$here" rev-parse HEAD 2>/dev/null || echo unknown)")" \
    "$([ -n "$dry" ] && echo true || echo false)" "$failures"
  printf ' "gpu": {"name": %s, "driver": %s, "sm_clock": %s, "power": %s, "memory": %s},\n "rows": [' "$(quoted "$gpu")" \
    "$(quoted "$(gpu_of driver_version)")" "$(quoted "$(gpu_of clocks.sm)")" "$(quoted "$(gpu_of power.draw)")" \
    "$(quoted "$(gpu_of memory.total)")"
  awk -F'\t' '{ gsub(/["\\]/, "\\\\&"); printf "%s\n  {\"name\": \"%s\", \"result\": \"%s\", \"text\": \"%s\"}", (NR > 1 ? "," : ""), $1, $2, $3 }' "$work/rows"
  printf '],\n "measurements": ['
  [ -f "$work/json" ] && awk '{ printf "%s\n  %s", (NR > 1 ? "," : ""), $0 }' "$work/json"
  printf ']}\n'
} >"$out"
echo
echo "$failures failures; results in $out"
[ "$failures" -eq 0 ]
