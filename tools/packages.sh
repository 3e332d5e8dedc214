# Sourced by quickstart.sh and test.sh: the Debian 12 packages Assay needs, and how to get what is missing.

# What the libraries and tools are built from and link against.
build_packages=(
  build-essential ca-certificates ccache cmake git ninja-build pkg-config
  libcli11-dev libdnnl-dev libfmt-dev libjpeg62-turbo-dev libboost-math-dev libprotobuf-dev protobuf-compiler libssl-dev
  libutf8proc-dev libzip-dev rapidjson-dev zlib1g-dev
)
# With them dataset-convert reads PNG and TIFF files; not needed for the quickstart's data.
picture_packages=(libopencv-imgcodecs-dev libtiff-dev)
# Real data for the quickstart and the tests.
data_packages=(dataset-fashion-mnist)
# What only the tests and benchmarks need.
test_packages=(abigail-tools cargo libbenchmark-dev libgmock-dev libgtest-dev clang libclang-rt-14-dev clang-format clang-tidy golang-go openmpi-bin python3)

say() { printf '\n== %s\n' "$*"; }

# ensure_packages NAME...: installs those that are missing, says which; does nothing if all are there.
ensure_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "Packages: all $# are installed"
    return
  fi
  say "Packages: installing ${#missing[@]} of $# with apt-get: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Run this as root, or install sudo: apt-get needs it." >&2; exit 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# configure_and_build FOLDER CMAKE-OPTION... -- TARGET...: an idempotent release build; ninja shows the progress.
configure_and_build() {
  local folder=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  say "Building in $folder"
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DASSAY_UNITY=ON "${options[@]}" >"$folder.configure.log" 2>&1 ||
    { cat "$folder.configure.log" >&2; exit 1; }
  cmake --build "$folder" --target "$@"
}
