#!/usr/bin/env bash
# Packs what a GPU check needs into one archive that runs where only the C library and CUDA's libraries are:
# build/portable/assay-portable.tar.xz with bin/, lib/, the tests' fixtures, recipes and their converted data as far
# as they lie in data/, the opponents' scripts and tools/gpu_check.sh. cuDNN, cuBLAS and the driver are taken from that machine.
#
#   tools/portable.sh [BUILD-FOLDER]       default build/portable-tree; reuses what is built there
#
# On the other machine: tar xf assay-portable.tar.xz && assay/tools/gpu_check.sh
set -euo pipefail
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")/.."
tree=${1:-build/portable-tree}
root=build/portable/assay
programs=(gpu_test cuda_loader_test cuda_runtime_test assay-bench-step recipe-run)
data=(isbi2012_em imagenet_64) # of the recipes that gpu_check.sh runs

cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DASSAY_CUDA=ON -DASSAY_PORTABLE=ON >"$tree.configure.log" 2>&1 ||
  { cat "$tree.configure.log" >&2; exit 1; }
cmake --build "$tree" --target assay assay_cuda "${programs[@]}"

rm -rf "$root"
mkdir -p "$root/bin" "$root/lib" "$root/tests" "$root/tools/bench"
cp -P "$tree"/lib/libassay.so* "$tree"/lib/libassay_cuda.so* "$root/lib/"
for program in "${programs[@]}"; do cp "$tree/bin/$program" "$root/bin/"; done
# Every library but the C library's and CUDA's: what the machine brings itself must not be doubled.
ldd "$root"/bin/* "$root"/lib/*.so.* 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*|libcuda|libcudnn[^/]*|libcublas[^/]*|libassay[^/]*)\.so' |
  xargs -r cp -L -t "$root/lib/"
strip --strip-unneeded "$root"/bin/* "$root"/lib/*.so.*
cp -r tests/fixtures "$root/tests/"
cp -r recipes "$root/"
mkdir "$root/data"
for name in "${data[@]}"; do
  if [ -d "data/$name" ]; then cp -rL "data/$name" "$root/data/"; else echo "no data/$name: gpu_check.sh will leave out its recipes" >&2; fi
done
cp -r tools/bench/peers "$root/tools/bench/"
cp tools/gpu_check.sh "$root/tools/"
git rev-parse HEAD >"$root/revision"
tar -C build/portable -cJf build/portable/assay-portable.tar.xz assay
du -sh "$root" build/portable/assay-portable.tar.xz
