#!/usr/bin/env bash
# Runs clang-tidy on the sources that changed since a commit (default: all).
#
#   tools/tidy.sh [COMMIT]      e.g. tools/tidy.sh HEAD~1
#
# Every file is compiled by itself, by clang and without precompiled headers, so this also finds what a file takes from
# its neighbours. Exit code 0: no findings.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
if [ $# -gt 0 ]; then files=$(git diff --name-only --diff-filter=d "$1" -- '*.cpp'); else files=$(git ls-files '*.cpp'); fi
files=$(printf '%s\n' "$files" | grep -v '^tests/fuzz/' || true)
[ -n "$files" ] || { echo "no source changed"; exit 0; }

folder=build/tidy
mkdir -p build
if PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then tools/cudnn_frontend.sh; fi
CC=clang CXX=clang++ cmake -S . -B "$folder" -G Ninja -DASSAY_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >"$folder.log" ||
  { cat "$folder.log" >&2; exit 1; }
ninja -C "$folder" -t targets all | sed -n 's/: CUSTOM_COMMAND$//p' | grep -E '\.(pb\.h|inc)$' | xargs ninja -C "$folder" >"$folder.log"
# What is not built here, as the CUDA plug-in where nvcc is missing, cannot be read either.
files=$(comm -12 <(sort <<<"$files") <(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\".*|\1|p" "$folder/compile_commands.json" | sort -u))
printf '%s\n' "$files" | xargs -P "$(nproc)" -n 4 clang-tidy -p "$folder" --quiet
