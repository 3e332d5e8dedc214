#!/usr/bin/env bash
# Runs every fuzz target, or those that are named, so many times, and says what became of it.
#
#   tests/fuzz/run.sh BUILD RUNS [TARGET...]      e.g. tests/fuzz/run.sh build/fuzz 10000000 network record
#
# BUILD is a folder of the preset fuzz (libFuzzer with AddressSanitizer): then the last column is the coverage, edges of the
# program that were reached ("cov") and features ("ft"). Any other build runs random mutations of the seeds, without feedback.
# New inputs and inputs that fail stay in BUILD/fuzz/TARGET. Exit code 1: a target failed.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
runs=$2
shift 2
[ $# -gt 0 ] || set -- $(cd "$source" && ls ./*_fuzz.cpp | sed 's|./||; s|_fuzz.cpp||')

# Where memory was taken is not noted, which takes time: run an input that fails again, by hand, without these options.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=0:quarantine_size_mb=16}
failed=0
for target in "$@"; do
  folder=$build/fuzz/$target
  mkdir -p "$folder/found"
  options=(-runs="$runs" -timeout=20 -rss_limit_mb=4096 -artifact_prefix="$folder/")
  case $target in
    recipe*) words=recipe ;;
    detection_results) words=coco ;;
    *) words=$target ;;
  esac
  if [ -f "$source/dictionaries/$words" ]; then options+=(-dict="$source/dictionaries/$words"); fi
  if "$build/bin/${target}_fuzz" "${options[@]}" "$folder/found" "$source/corpus/$target" >"$folder/log" 2>&1; then
    verdict=passed
  else
    verdict=FAILED failed=1
  fi
  printf '%-20s %-7s %s\n' "$target" "$verdict" "$(grep -E 'DONE|inputs' "$folder/log" | tail -1)"
done
exit $failed
