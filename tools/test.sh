#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests that need no GPU (labels null and cpu).
#
#   tools/test.sh [ctest options]      e.g. tools/test.sh -R trainer --output-on-failure
#
# Every test that fails shows its output. Exit code 0: all passed.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
. tools/packages.sh

ensure_packages "${build_packages[@]}" "${picture_packages[@]}" "${data_packages[@]}" "${test_packages[@]}"
mkdir -p build

say "Checking which layer includes which, and the formatting"
python3 tools/check_layers.py
tools/format.sh --check

# Where nvcc is, every line of the CUDA plug-in is compiled as well, and cuDNN plans for GPUs that are not there.
if PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then tools/cudnn_frontend.sh; fi
configure_and_build build/test -- all

say "Running the tests"
ctest --test-dir build/test -j "$(nproc)" -LE 'slow|gpu' --output-on-failure "$@"
