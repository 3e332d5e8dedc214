# Sourced with the folder of an installed library: finds it, and nothing from elsewhere.
export PKG_CONFIG_PATH="$1/pkgconfig" LD_LIBRARY_PATH="$1"
export GOPROXY=off GOFLAGS=-buildvcs=false CGO_ENABLED=1  # the checkout may belong to another user

# need TOOL...: ends the test as skipped where one is missing.
need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
  done
}
