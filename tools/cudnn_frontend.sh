#!/usr/bin/env bash
# Fetches the headers of NVIDIA's cudnn-frontend, which the CUDA plug-in is compiled with, from their PyPI
# wheel into build/third_party/cudnn_frontend. Only needed to build for GPUs; does nothing if they are there.
#
#   tools/cudnn_frontend.sh
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
version=1.18.0 # pairs with cuDNN 9.18 and 9.19; from 1.19 on it links the driver, which may be missing
target=build/third_party/cudnn_frontend

if [ "$(cat "$target/version" 2>/dev/null)" = "$version" ]; then
  echo "cudnn-frontend $version is in $target"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Any platform's wheel carries the same headers.
python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 \
  --platform manylinux_2_28_x86_64 --dest "$work" "nvidia-cudnn-frontend==$version" ||
  { echo "could not fetch nvidia-cudnn-frontend $version with pip; the CUDA plug-in needs its headers" >&2; exit 1; }
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
rm -rf "$target"
mkdir -p "$target"
cp -r "$work/wheel/include" "$target/"
echo "$version" >"$target/version"
echo "cudnn-frontend $version: headers in $target/include"
