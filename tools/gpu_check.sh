#!/usr/bin/env bash
# Everything worth doing when a GPU is at hand: GPU tests, compute-sanitizer, speed beside PyTorch. Prints one
# table, writes JSON. Runs a prebuilt tree (tools/portable.sh) or a build folder; builds nothing.
#
#   tools/gpu_check.sh [options]
#     --bin FOLDER        gpu_test and assay-bench-step (default: bin of a portable tree, or build/test/bin)
#     --out FILE          results (default gpu_check.json)
#     --steps LIST        of: tests sanitizer bench peers (default all)
#     --batches LIST      training batches (default "64 128 256 512"); inference takes 1 8 32 128 256
#     --precisions LIST   default "tf32 amp-fp16 amp-bf16"
#     --python PROGRAM    interpreter with torch and torchvision (default python3)
#
# Without a GPU it says why and exits with 77. Exit code 1: something failed. Clocks, power and MIG settings are
# left as they are.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
bin= out=gpu_check.json steps="tests sanitizer bench peers" batches="64 128 256 512"
precisions="tf32 amp-fp16 amp-bf16" python=python3 inference="1 8 32 128 256"
while [ $# -gt 0 ]; do
  case $1 in
    --bin) bin=$2 ;; --out) out=$2 ;; --steps) steps=$2 ;; --batches) batches=$2 ;;
    --precisions) precisions=$2 ;; --python) python=$2 ;;
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown option $1; see --help" >&2; exit 2 ;;
  esac
  shift 2 || { echo "the last option needs a value; see --help" >&2; exit 2; }
done
[ -n "$bin" ] || for folder in "$here/bin" "$here/build/test/bin"; do [ -x "$folder/gpu_test" ] && bin=$folder && break; done
[ -n "$bin" ] || { echo "no gpu_test in bin or build/test/bin: build it, or say --bin" >&2; exit 2; }
bin=$(cd "$bin" && pwd)
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
# check NAME COMMAND...: one row, ok or FAILED with the log's last lines.
check() {
  local name=$1 begin=$SECONDS
  shift
  if "$@" >"$work/log" 2>&1; then
    row "$name" ok "$((SECONDS - begin)) s$(grep -o '\[  PASSED  \].*' "$work/log" | sed 's/.*\] */, /')"
  else
    failures=$((failures + 1))
    row "$name" FAILED "the last lines of its output:"
    tail -n 20 "$work/log"
  fi
}

reason=$("$bin/gpu_test" --gtest_filter=Device.MemoryStartsAsZeroAndKeepsWhatIsWritten 2>&1 | grep -o 'no CUDA device can be used: .*' | head -1)
if [ -n "$reason" ]; then
  echo "$reason"
  exit 77
fi
query=name,driver_version,clocks.sm,power.draw,memory.total
machine=$(nvidia-smi --query-gpu=$query --format=csv,noheader 2>/dev/null | head -1)
echo "GPU: ${machine:-unknown (nvidia-smi does not answer)}"
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

median() { sed -n 's/.*"median_ms": \([0-9.]*\).*/\1/p' <<<"$1"; }
rate() { awk -v n="$1" -v ms="$2" 'BEGIN { printf "%.0f", n / ms * 1000 }'; }
# Images per second of the roofline of one H200 (gpu: 790 TFLOP/s in 16 bits, 395 in TF32, 4.3 TB/s; batch norm fused).
floor_of() { case $1 in tf32) echo 5118 ;; amp-*) echo 10224 ;; *) echo 0 ;; esac; }

# bench TASK PRECISION BATCH: ours, then the fastest of PyTorch's modes, in the same minute.
bench() {
  local task=$1 precision=$2 batch=$3 name="resnet50/$1/$2/$3" ours theirs= mode=
  ours=$("$bin/assay-bench-step" --device cuda:0 --resident --json --model resnet50 --mode "$task" \
    --precision "$precision" --batch "$batch" --repeats 20 2>"$work/log" | grep '^{')
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

if wanted bench; then
  for precision in $precisions; do
    for batch in $batches; do bench train "$precision" "$batch"; done
    for batch in $inference; do bench infer "$precision" "$batch"; done
  done
fi

{
  printf '{"date": "%s", "revision": "%s", "gpu": "%s",\n "rows": [' "$(date -u +%F)" \
    "$(cat "$here/revision" 2>/dev/null || git -C "$here" rev-parse HEAD 2>/dev/null || echo unknown)" "$machine"
  awk -F'\t' '{ gsub(/["\\]/, "\\\\&"); printf "%s\n  {\"name\": \"%s\", \"result\": \"%s\", \"text\": \"%s\"}", NR > 1 ? "," : "", $1, $2, $3 }' "$work/rows"
  printf '],\n "measurements": ['
  [ -f "$work/json" ] && awk '{ printf "%s\n  %s", NR > 1 ? "," : "", $0 }' "$work/json"
  printf ']}\n'
} >"$out"
echo
echo "$failures failures; results in $out"
[ "$failures" -eq 0 ]
