#!/usr/bin/env bash
# From a fresh Debian 12 machine to a reproduced published row: installs what is missing, builds, converts Debian's copy of
# Fashion-MNIST to record files, trains three seeds and prints published / measured / verdict for every row.
#
#   tools/quickstart.sh [recipe-run options]      e.g. tools/quickstart.sh --seeds 1
#
# Interrupted (Ctrl-C, kill, power), it continues where it was when called again; when finished, it shows the report.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
. tools/packages.sh

ensure_packages "${build_packages[@]}" "${data_packages[@]}"
mkdir -p build
configure_and_build build/quickstart -DASSAY_TESTS=OFF -DASSAY_BENCH=OFF -- dataset-convert recipe-run

say "Converting Fashion-MNIST to record files in data/fashion_mnist"
build/quickstart/bin/dataset-convert fashion_mnist --from /usr/share/datasets/fashion-mnist --to data/fashion_mnist

say "Running the recipe fashion_mnist/cnn_2conv_bn"
exec build/quickstart/bin/recipe-run run fashion_mnist/cnn_2conv_bn "$@"
