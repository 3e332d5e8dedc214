#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests that need no GPU (labels null and cpu).
#
#   tools/test.sh [ctest options]      e.g. tools/test.sh -R trainer --output-on-failure
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

ensure_packages "${build_packages[@]}" "${picture_packages[@]}" "${data_packages[@]}" "${test_packages[@]}"
mkdir -p build

say "Checking which layer includes which, and the formatting"
python3 tools/check_layers.py
tools/format.sh --check

# With nvcc and the headers that tools/cudnn_frontend.sh fetches, this builds the CUDA plug-in as well.
configure_and_build build/test -- all

say "Running the tests"
ctest --test-dir build/test -j "$(nproc)" -LE 'slow|gpu' --output-on-failure "$@"
