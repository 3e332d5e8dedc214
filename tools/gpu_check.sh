#!/usr/bin/env bash
# Everything worth doing when a GPU is at hand: GPU tests, speed beside PyTorch, the published recipes,
# compute-sanitizer. Prints one table, writes JSON (tools/bench/results/gpu_check.schema.json). Runs a prebuilt
# tree (tools/portable.sh) or a build folder; builds nothing.
#
#   tools/gpu_check.sh [options]
#     --out FILE          results (default gpu_check.json); FILE.parts holds every log and what a further call needs
#     --limit SECONDS     end after this time (default 570) and say what is left; 0: no limit
#     --again             forget what earlier calls have done
#     --steps LIST        of: device profile bench variants tests compile sanitizer text detector sweep recipes (default
#                         all, in this order: what is worth most first, each within one call)
#     --models LIST       of: resnet50 unet_medical bert_base electra_base_pretraining bert_base_squad efficientdet_d0
#     --batches LIST      training batches, of every model; then nothing is predicted
#     --precisions LIST   default "amp-fp16 tf32 amp-bf16"
#     --bin FOLDER        the programs (default: bin of a portable tree, or build/test/bin)
#     --data FOLDER       converted data sets of the recipes, isbi2012_em and imagenet_64 (default data)
#     --python PROGRAM    interpreter with torch and torchvision (default python3); none: PyTorch is left out
#     --dry-run           says what would run and what is missing for it; needs no GPU
#
# steps: device     seconds: is there a device, does it compute, has cuDNN an engine for every convolution, does NCCL send
#        profile    every kernel of a training step with its GB/s: ResNet-50 and U-Net, and the roof of the device
#        bench      training steps of these two at their published batches with the batch on the device, and as well
#                   with kernels whose bits may differ from run to run, as PyTorch's do, beside PyTorch (eager, and
#                   captured in a CUDA graph) in the same minute
#        variants   the same without timed choices of kernels
#        tests      every test of the backend on the device: ops, parity, steps
#        compile    PyTorch's torch.compile, which takes minutes a case
#        sanitizer  the tests under compute-sanitizer: memcheck, racecheck, initcheck, synccheck; without whole
#                   models, and of the kernels only the engine's own. Then a short recipe, which must learn
#        text       BERT and ELECTRA: training, with padding and without, and answers, beside PyTorch's fused attention
#        detector   EfficientDet-D0, training and inference, and every kernel of a training step
#        sweep      ResNet-50 and U-Net at other batches, their inference, and steps fed from the host
#        recipes    U-Net as published: five folds, amp and tf32, on one device and on eight emulated ones;
#                   ResNet-50: 64 images by heart
#
# Call it again, with the same --out, until nothing is left: what is done is not done again, what failed is.
# Recipes go on where they stopped. Exit code: 0 all done, 1 something failed, 3 something is left, 77 no GPU (it
# says why). Clocks, power and MIG settings are left as they are.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
bin= out=gpu_check.json steps="device profile bench variants tests compile sanitizer text detector sweep recipes" batches=
models="resnet50 unet_medical bert_base electra_base_pretraining bert_base_squad efficientdet_d0"
data=$here/data dry= precisions="amp-fp16 tf32 amp-bf16" python=python3 limit=570 again=
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=yes; shift; continue ;;
    --again) again=yes; shift; continue ;;
    --bin) bin=${2-} ;; --out) out=${2-} ;; --steps) steps=${2-} ;; --models) models=${2-} ;; --limit) limit=${2-} ;;
    --batches) batches=${2-} ;; --precisions) precisions=${2-} ;; --python) python=${2-} ;; --data) data=${2-} ;;
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown option $1; see --help" >&2; exit 2 ;;
  esac
  shift 2 || { echo "the last option needs a value; see --help" >&2; exit 2; }
done
for step in $steps; do
  case $step in
    device | profile | bench | variants | tests | compile | sanitizer | text | detector | sweep | recipes) ;;
    *) echo "unknown step $step; see --help" >&2; exit 2 ;;
  esac
done
for model in $models; do
  case $model in
    resnet50 | unet_medical | bert_base | electra_base_pretraining | bert_base_squad | efficientdet_d0) ;;
    *) echo "unknown model $model; see --help" >&2; exit 2 ;;
  esac
done
case $limit in '' | *[!0-9]*) echo "--limit wants seconds; see --help" >&2; exit 2 ;; esac
[ -n "$bin" ] || for folder in "$here/bin" "$here/build/test/bin"; do [ -x "$folder/gpu_test" ] && bin=$folder && break; done
[ -n "$bin" ] || { echo "no gpu_test in bin or build/test/bin: build it, or say --bin" >&2; exit 2; }
bin=$(cd "$bin" && pwd) || exit 2
export ASSAY_SOURCE_DIR=$here # the tests' fixtures
# CUDA's libraries, where the loader does not know them: those of the toolkit, or of the wheels that PyTorch brings.
# PyTorch itself keeps the path as it was, as the parts of two releases of cuDNN do not work together.
path_before=${LD_LIBRARY_PATH-}
library_folders() {
  local cudnn=/usr/local/cuda/lib64/libcudnn.so.9
  [ -d /usr/local/cuda/lib64 ] && echo /usr/local/cuda/lib64
  [ -e "$cudnn" ] || ldconfig -p 2>/dev/null | grep -q 'libcudnn\.so\.9' || [ "$python" = none ] ||
    "$python" -c 'import glob, os, sysconfig
for folder in glob.glob(os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib")): print(folder)' 2>/dev/null
}
for folder in $(library_folders); do
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done

# ---- What is kept from call to call -----------------------------------------------------------------

parts=$out.parts
[ -z "$dry" ] || parts=$(mktemp -d)
[ -z "$again" ] || rm -rf "$parts"
mkdir -p "$parts" || exit 2
parts=$(cd "$parts" && pwd)
touch "$parts/rows" "$parts/measurements"
[ -z "$dry" ] || trap 'rm -rf "$parts"' EXIT
export ASSAY_CUDA_PLAN_CACHE=${ASSAY_CUDA_PLAN_CACHE:-$parts/plans} # timed choices for the benchmarks
log=$parts/log # of what runs; afterwards kept in $parts/logs, by the row's name
mkdir -p "$parts/logs"
left=0
cores=$(nproc)

revision=$(cat "$here/revision" 2>/dev/null || git -C "$here" rev-parse HEAD 2>/dev/null || echo unknown)
gpu_of() { nvidia-smi "--query-gpu=$1" --format=csv,noheader 2>/dev/null | head -1; }
gpu=$(gpu_of name) driver=$(gpu_of driver_version) clock=$(gpu_of clocks.sm) power=$(gpu_of power.draw)
memory=$(gpu_of memory.total)
quoted() { printf '"%s"' "$(sed 's/[\\"]/\\&/g' <<<"${1:-}")"; }
failures() { awk -F'\t' '$2 == "FAILED"' "$parts/rows" | wc -l; }
write_results() {
  {
    printf '{"schema": 1, "date": "%s", "revision": %s, "dry_run": %s, "failures": %d, "left": %d,\n' "$(date -u +%F)" \
      "$(quoted "$revision")" "$([ -n "$dry" ] && echo true || echo false)" "$(failures)" "$left"
    printf ' "gpu": {"name": %s, "driver": %s, "sm_clock": %s, "power": %s, "memory": %s},\n "rows": [' "$(quoted "$gpu")" \
      "$(quoted "$driver")" "$(quoted "$clock")" "$(quoted "$power")" "$(quoted "$memory")"
    awk -F'\t' '{ gsub(/["\\]/, "\\\\&"); printf "%s\n  {\"name\": \"%s\", \"result\": \"%s\", \"text\": \"%s\"}", (NR > 1 ? "," : ""), $1, $2, $3 }' "$parts/rows"
    printf '],\n "measurements": ['
    awk '{ printf "%s\n  %s", (NR > 1 ? "," : ""), $0 }' "$parts/measurements"
    printf ']}\n'
  } >"$out.new" && mv "$out.new" "$out"
}
# row NAME RESULT TEXT: printed, and kept in place of an earlier row of this name, as its log is.
row() {
  [ ! -f "$log" ] || mv "$log" "$parts/logs/$(tr -c 'A-Za-z0-9._\n-' _ <<<"$1")"
  printf '%-46s %-8s %s\n' "$1" "$2" "$3"
  awk -F'\t' -v name="$1" '$1 != name' "$parts/rows" >"$parts/rows.new"
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$parts/rows.new"
  mv "$parts/rows.new" "$parts/rows"
  [ -n "$dry" ] || write_results
}
# keep FILE: its measurements, in place of earlier ones of the same name, peer and mode.
keep() {
  cat "$parts/measurements" "$1" | awk '{
    key = ""
    for (i = split("name peer mode", field, " "); i > 0; --i) { match($0, "\"" field[i] "\": \"[^\"]*\""); key = key substr($0, RSTART, RLENGTH) }
    if (!(key in line)) order[++n] = key
    line[key] = $0
  } END { for (i = 1; i <= n; ++i) print line[order[i]] }' >"$parts/measurements.new"
  mv "$parts/measurements.new" "$parts/measurements"
}
is_done() { awk -F'\t' -v name="$1" '$1 == name && ($2 == "ok" || $2 == "measured") { found = 1 } END { exit !found }' "$parts/rows"; }
time_left() { if [ "$limit" -eq 0 ]; then echo 86400; else echo $((limit - SECONDS)); fi; }
# due NAME SECONDS WHAT: whether to do it now: not done before, and as much time is left; in a dry run it is planned.
due() {
  if [ -n "$dry" ]; then
    row "$1" planned "$3"
    return 1
  fi
  is_done "$1" && return 1
  [ "$(time_left)" -ge "$2" ] && return
  left=$((left + 1))
  return 1
}
# limited COMMAND...: within the time that is left; 124 if it was not enough.
limited() { timeout --signal=INT --kill-after=20 "$(time_left)" "$@"; }
# check NAME SECONDS COMMAND...: one row, ok or FAILED with the log's last lines. What has no time to end is left.
check() {
  local name=$1 wanted=$2 begin=$SECONDS code reason
  shift 2
  due "$name" "$wanted" "$*" || return
  limited "$@" >"$log" 2>&1
  code=$?
  if reason=$(grep -m 1 -o -e 'Device not supported.*' -e 'NCCL cannot be used: .*' "$log"); then
    row "$name" skipped "$reason"
    return
  fi
  if [ "$code" -eq 0 ]; then
    row "$name" ok "$((SECONDS - begin)) s$(grep -o '\[  PASSED  \].*' "$log" | sed 's/.*\] */, /')"
  elif [ "$(time_left)" -le 1 ]; then
    left=$((left + 1))
    echo "$name: not at its end after $((SECONDS - begin)) s"
  else
    tail -n 20 "$log"
    row "$name" FAILED "the last lines of its output stand above"
  fi
}
wanted() { case " $steps " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
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
echo "GPU: ${gpu:-unknown (nvidia-smi does not answer)} $driver $clock $power"
echo

# ---- Tests ------------------------------------------------------------------------------------------

# recipe TITLE RECIPE OPTION...: one run on the GPU; a further call goes on where it stopped.
recipe() {
  local title=$1 name=$2
  shift 2
  check "recipe $title" 30 "$bin/recipe-run" --recipes "$here/recipes" run "$name" --device cuda:0 --data "$data" \
    --runs "$parts/runs/${title// /_}" --quiet "$@"
}
convert="convert it with dataset-convert, or say --data"
# The tests choose without timing: their bits must not depend on a cache.
tests() { ASSAY_CUDA_PLAN_CACHE= check "$@"; }
# sharded COUNT TITLE SECONDS COMMAND...: tests in so many parts, each of which is done by itself.
sharded() {
  local count=$1 title=$2 seconds=$3 i
  shift 3
  for ((i = 0; i < count; ++i)); do
    tests "$title $((i + 1))/$count" "$seconds" env GTEST_TOTAL_SHARDS="$count" GTEST_SHARD_INDEX="$i" "$@"
  done
}
# at_once COUNT COMMAND...: tests in so many parts that run side by side; its output ends with how many passed.
at_once() {
  local count=$1 i failed=0 parts=()
  shift
  trap 'kill "${parts[@]}" 2>/dev/null; wait; exit 124' INT TERM # the shell lets them ignore the signal
  for ((i = 0; i < count; ++i)); do
    GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$i "$@" >"$log.$i" 2>&1 &
    parts+=($!)
  done
  for ((i = 0; i < count; ++i)); do
    wait "${parts[i]}" || failed=1
    grep -v '^\[  PASSED  \]' "$log.$i"
  done
  cat "$log".[0-9]* | awk '/^\[  PASSED  \]/ { n += $4 } END { print "[  PASSED  ] " n " tests." }'
  rm -f "$log".[0-9]*
  return $failed
}
export -f at_once
export log
fault='Device.AnIllegal*' # loses the device of its process, which may not come back

if wanted device; then
  tests "device" 2 "$bin/gpu_test" --gtest_brief=1 --gtest_filter="Device.*:Feed*:Add.*:MaxPool*:-$fault"
  tests "NCCL, one rank" 5 "$bin/gpu_test" --gtest_brief=1 --gtest_filter="OneGpu.*"
  tests "device, after a fault" 2 "$bin/gpu_test" --gtest_brief=1 --gtest_filter="$fault"
fi

# ---- Speed ------------------------------------------------------------------------------------------

median() { sed -n 's/.*"median_ms": \([0-9.]*\).*/\1/p' <<<"$1"; }
rate() { awk -v n="$1" -v ms="$2" 'BEGIN { printf "%.0f", n / ms * 1000 }'; }
# Samples per second of the roofline of one H200 (790 TFLOP/s in 16 bits, 395 in TF32, 4.3 TB/s; epilogues and batch
# norm fused), as far as it was worked out; 0 where it was not.
floor_of() {
  case $1/$2/$3/$4 in
    resnet50/train/tf32/*) echo 5118 ;;
    resnet50/train/amp-*) echo 10224 ;;
    unet_medical/train/tf32/1) echo 354 ;;
    unet_medical/train/tf32/8) echo 380 ;;
    unet_medical/train/amp-*/1) echo 658 ;;
    unet_medical/train/amp-*/8) echo 752 ;;
    unet_medical/infer/tf32/16) echo 1105 ;;
    unet_medical/infer/amp-*/16) echo 2211 ;;
    bert_base/train/amp-*) echo 9250 ;;
    bert_base/train/tf32/*) echo 4703 ;;
    bert_base_512/train/amp-*) echo 2253 ;;
    electra_base_pretraining/train/amp-*) echo 8229 ;;
    bert_base_squad/train/amp-*) echo 3113 ;;
    bert_base_squad_packed/train/amp-*) echo 6000 ;;
    efficientdet_d0/train/amp-*) echo 4563 ;;
    efficientdet_d0/train/tf32/*) echo 2281 ;;
    *) echo 0 ;;
  esac
}
# options_of CASE: of assay-bench-step. A case of text is a model at one length, with its padding or without: 170 of a
# question's 384 tokens are none.
options_of() {
  case $1 in
    bert_base) echo --model bert_base --sequence-length 128 --prediction-slots 20 --optimizer adamw ;;
    bert_base_512) echo --model bert_base --sequence-length 512 --prediction-slots 80 --optimizer adamw ;;
    electra_base_pretraining) echo --model "$1" --sequence-length 128 --prediction-slots 19 --optimizer adamw ;;
    electra_base_pretraining_512) echo --model "${1%_512}" --sequence-length 512 --prediction-slots 79 --optimizer adamw ;;
    bert_base_squad) echo --model bert_base --config '{"head":"span"}' --sequence-length 384 --optimizer adamw ;;
    bert_base_squad_packed) echo "$(options_of bert_base_squad)" --tokens 170 ;;
    *) echo --model "$1" ;;
  esac
}
# cases STEP PRECISION: lines "case task batch", what is worth most first; of the chosen models, at the chosen batches.
cases() {
  local half=2 found name model task list batch
  [ "$2" != tf32 ] || half=1
  case $1 in
    bench) found="resnet50 train 256
unet_medical train 8 1" ;;
    text) found="bert_base train 96
electra_base_pretraining train $((88 * half))
bert_base_squad_packed train 32
bert_base_squad train 32
bert_base_squad infer 1 128
bert_base_512 train 32
electra_base_pretraining_512 train $((12 * half))
bert_base train 160 64 32
bert_base_squad_packed train 16 8
bert_base_squad train 16 8
bert_base_squad infer 256 512" ;;
    detector) found="efficientdet_d0 train 128 200
efficientdet_d0 infer 1 256
efficientdet_d0 train 104 64
efficientdet_d0 infer 8 32 64 128 2 4 16" ;;
    sweep) found="resnet50 train 512 128 64
resnet50 infer 1 8 32 128 256
unet_medical infer 1 8 16" ;;
  esac
  [ -z "$batches" ] || found=$(awk '$2 == "train" && !seen[$1]++ { print $1, $2 }' <<<"$found" | sed "s/\$/ $batches/")
  while read -r name task list; do
    model=${name%_512}
    case " $models " in *" ${model%_packed} "*) for batch in $list; do echo "$name $task $batch"; done ;; esac
  done <<<"$found"
}

# ours MODEL TASK PRECISION BATCH OPTION...: one line of JSON.
ours() {
  local model=$1 task=$2 precision=$3 batch=$4
  shift 4
  # shellcheck disable=SC2046
  limited "$bin/assay-bench-step" --device cuda:0 --json $(options_of "$model") --mode "$task" --precision "$precision" \
    --batch "$batch" --repeats 20 "$@" 2>"$log" | grep '^{' | sed "s|\"name\": \"[^\"]*|\"name\": \"$model/$task/$precision/$batch|"
}
# theirs MODEL TASK PRECISION BATCH MODE...: a line of JSON for each mode, in $parts/peers.
theirs() {
  local model=$1 task=$2 precision=$3 batch=$4
  shift 4
  : >"$parts/peers"
  [ "$python" = none ] && return
  LD_LIBRARY_PATH=$path_before limited "$python" "$here/tools/bench/peers/pytorch_cuda.py" --model "${model%_packed}" --task "$task" --precisions "$precision" \
    --batches "$batch" --modes "$@" 2>"$log" | grep '^{' >"$parts/peers" || true
}
# beside BATCH MS [MS]: the fastest of $parts/peers, as words that follow ours, whose times these are.
beside() {
  local fastest batch=$1 ms
  shift
  fastest=$(sed 's/.*"mode": "\([^"]*\)".*"median_ms": \([0-9.]*\).*/\2 \1/' "$parts/peers" | sort -n | head -1)
  [ -n "$fastest" ] || return
  printf '; PyTorch %s %s a second, ratio' "${fastest#* }" "$(rate "$batch" "${fastest%% *}")"
  for ms in "$@"; do awk -v a="${fastest%% *}" -v b="$ms" 'BEGIN { printf " %.2f", a / b }'; done
}
# against NAME MODEL TASK PRECISION BATCH MODE...: ours, training also with determinism off, then PyTorch's modes, all
# in the same minute.
against() {
  local name=$1 model=$2 task=$3 precision=$4 batch=$5 mine ms floor free= free_ms=
  mine=$(ours "$model" "$task" "$precision" "$batch" --resident)
  if [ -z "$mine" ]; then
    row "$name" FAILED "$(tail -n 1 "$log")"
    return
  fi
  shift 5
  if [ "$task" = train ]; then
    free=$(ours "$model" "$task" "$precision" "$batch" --resident --nondeterministic)
    free_ms=$(median "$free")
    if [ -z "$free_ms" ]; then
      row "$name" FAILED "with determinism off: $(tail -n 1 "$log")"
      return
    fi
  fi
  theirs "$model" "$task" "$precision" "$batch" "$@"
  keep <(echo "$mine"; [ -z "$free" ] || sed 's/"mode": "/&determinism off, /' <<<"$free"; cat "$parts/peers")
  ms=$(median "$mine") floor=$(floor_of "$model" "$task" "$precision" "$batch")
  row "$name" measured "$(rate "$batch" "$ms") a second, $ms ms$(
    [ "$floor" -eq 0 ] || awk -v r="$(rate "$batch" "$ms")" -v f="$floor" 'BEGIN { printf ", %.0f %% of the floor", 100 * r / f }'
  )$([ -z "$free_ms" ] || printf '; determinism off %s a second' "$(rate "$batch" "$free_ms")")$(
    # shellcheck disable=SC2086
    beside "$batch" $ms $free_ms
  )"
}
# bench CASE TASK PRECISION BATCH
bench() {
  local name="$1/$2/$3/$4"
  due "$name" 75 "$bin/assay-bench-step, $python tools/bench/peers/pytorch_cuda.py" || return
  against "$name" "$@" eager graph
}
# fed MODEL PRECISION BATCH: steps on batches that the host prefetches, beside steps on one that lies there.
fed() {
  local name="$1/fed/$2/$3" alone together
  due "$name" 60 "$bin/assay-bench-step --fed" || return
  alone=$(ours "$1" train "$2" "$3" --resident)
  together=$(ours "$1" train "$2" "$3" --fed)
  if [ -z "$alone" ] || [ -z "$together" ]; then
    row "$name" FAILED "$(tail -n 1 "$log")"
    return
  fi
  keep <(sed 's/"mode": "/&fed /' <<<"$together")
  row "$name" measured "$(median "$together") ms a step fed from the host, $(median "$alone") ms with the batch on the device"
}

# planned_whole MODEL PRECISION: which convolutions of a training step get other engines on this device than those that cuDNN
# plans for a described H200. Fails if one gets none.
planned_whole() {
  local step=("$bin/assay-bench-step" --model "$1" --mode train --precision "$2" --batch 8 --repeats 1 --plan)
  "${step[@]}" --device h200-plan >"$log.described" || { cat "$log.described"; return 1; }
  ASSAY_CUDA_PLAN_CACHE= "${step[@]}" --device cuda:0 >"$log.plan" || { cat "$log.plan"; return 1; }
  diff <(grep -o 'cudnn:[^]]*' "$log.described") <(grep -o 'cudnn:[^]]*' "$log.plan")
  echo "$(grep -c 'cudnn:' "$log.plan") convolutions on cuDNN"
}
export -f planned_whole
export bin

can_bench= # said once
for step in device profile bench variants compile text detector sweep; do
  wanted "$step" || continue
  if needs "bench" "$bin/assay-bench-step" "build it"; then can_bench=yes; fi
  break
done
# measured STEP: its cases in every precision.
measured() {
  local precision name task batch
  wanted "$1" && [ -n "$can_bench" ] || return
  for precision in $precisions; do
    while read -r name task batch; do
      [ -z "$name" ] || bench "$name" "$task" "$precision" "$batch" </dev/null
    done <<<"$(cases "$1" "$precision")"
  done
}
images() { case $1 in resnet50 | unet_medical | efficientdet_d0) ;; *) false ;; esac; }

if wanted device && [ -n "$can_bench" ]; then
  for precision in $precisions; do
    for model in $models; do
      images "$model" && check "$model/plan/$precision" 10 bash -c 'planned_whole "$@"' plan "$model" "$precision"
    done
  done
fi
# profiled PRECISION, and cases on standard input.
profiled() {
  local name task batch
  while read -r name task batch; do
    [ -z "$name" ] || check "$name/profile/$1/$batch" 30 "$bin/assay-bench-step" --device cuda:0 --model "$name" \
      --mode "$task" --precision "$1" --batch "$batch" --repeats 20 --resident --profile </dev/null
  done
}
if wanted profile && [ -n "$can_bench" ]; then
  for precision in amp-fp16 tf32; do profiled "$precision" <<<"$(cases bench "$precision" | grep -v ' 1$')"; done
fi
measured bench
if wanted variants && [ -n "$can_bench" ]; then
  while read -r name task batch; do
    title="$name/untimed/amp-fp16/$batch"
    { [ -n "$name" ] && due "$title" 60 "$bin/assay-bench-step, the libraries' proposals"; } || continue
    ms=$(median "$(ASSAY_CUDA_PLAN_CACHE= ours "$name" "$task" amp-fp16 "$batch" --resident </dev/null)")
    if [ -n "$ms" ]; then row "$title" measured "$ms ms"; else row "$title" FAILED "$(tail -n 1 "$log")"; fi
  done <<<"$(cases bench amp-fp16 | grep -v ' 1$')"
fi

if wanted tests; then
  tests "GPU tests, depthwise convolutions of cuDNN" 30 env ASSAY_TEST_CUDNN_DEPTHWISE=1 "$bin/gpu_test" --gtest_brief=1 \
    --gtest_filter='Conv2d*:EfficientDet*'
  tests "GPU tests" 60 bash -c 'at_once "$@"' tests $((cores < 12 ? cores : 12)) "$bin/gpu_test" --gtest_brief=1 --gtest_filter="-$fault:OneGpu.*" # which may be skipped, and have a row
fi

# ---- torch.compile, compute-sanitizer ---------------------------------------------------------------

# beside_compiled STEP: the first training case of each of its models in fp16.
beside_compiled() {
  local name task batch mode title
  [ "$python" != none ] && [ -n "$can_bench" ] || return
  while read -r name task batch; do
    [ -n "$name" ] || continue
    for mode in compile max-autotune reduce-overhead max-autotune-no-cudagraphs; do
      title="$name/$task/amp-fp16/$batch beside $mode"
      due "$title" 300 "$python tools/bench/peers/pytorch_cuda.py --modes $mode" &&
        against "$title" "$name" "$task" amp-fp16 "$batch" "$mode" </dev/null
    done
  done <<<"$(cases "$1" amp-fp16 | awk '$2 == "train" && !/_packed/ && !seen[$1]++')"
}
if wanted compile; then beside_compiled bench; fi

if wanted sanitizer; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [ -z "$sanitizer" ]; then
    row "compute-sanitizer" skipped "not installed"
  else
    # Deliberate faults stay out; so do whole models, which take too long under the tools. Only the engine's own kernels
    # are looked at, by a part of their mangled names. Calls that fail on purpose are no errors: what the loader and the
    # libraries try out, memory that is not there.
    for tool in memcheck racecheck initcheck synccheck; do
      sharded 4 "compute-sanitizer $tool" 60 "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no \
        --kernel-regex kns=assay4cuda7kernels "$bin/gpu_test" --gtest_brief=1 \
        "--gtest_filter=-$fault:*Parity*:Unet*:Conv2d*ProgramsRunAtOnce"
    done
  fi
  needs "recipe unet_medical/reduced" "$data/isbi2012_em" "$convert" &&
    recipe unet_medical/reduced unet_medical/reduced --seeds 1 --no-bench
fi

# ---- Further models and batches ---------------------------------------------------------------------

for step in text detector sweep; do
  measured "$step"
  if wanted "$step" && [ "$step" != sweep ]; then beside_compiled "$step"; fi
  if wanted "$step" && [ "$step" = detector ] && [ -n "$can_bench" ]; then profiled amp-fp16 <<<"$(cases detector amp-fp16 | head -1)"; fi
done
if wanted sweep && [ -n "$can_bench" ]; then
  case " $models " in *" resnet50 "*) for precision in $precisions; do fed resnet50 "$precision" 64; done ;; esac
fi

# ---- Recipes ----------------------------------------------------------------------------------------

if wanted recipes && needs "recipes" "$bin/recipe-run" "build it"; then
  if needs "recipe unet_medical" "$data/isbi2012_em" "$convert"; then
    for precision in amp tf32; do recipe "unet_medical/dgx_a100_${precision}_1gpu" "unet_medical/dgx_a100_${precision}_1gpu"; done
    for precision in amp tf32; do
      recipe "unet_medical/dgx_a100_${precision}_8gpu" "unet_medical/dgx_a100_${precision}_8gpu" --emulate-devices 8 --no-bench
    done
  fi
  if needs "recipe resnet50_v15" "$data/imagenet_64" "$convert"; then
    recipe resnet50_v15/overfit_64 resnet50_v15/overfit_64 --no-bench
    recipe "resnet50_v15/dgx_a100_amp_1gpu_90ep, smoke" resnet50_v15/dgx_a100_amp_1gpu_90ep --smoke \
      --set data.train.lock=imagenet_64 --set data.val.lock=imagenet_64
  fi
fi

write_results
echo
echo "$(failures) failures, $left left; results in $out"
[ "$left" -eq 0 ] || echo "call it again with the same --out: it goes on from here"
[ "$(failures)" -eq 0 ] || exit 1
[ "$left" -eq 0 ] || exit 3
