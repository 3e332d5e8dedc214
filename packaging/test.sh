#!/usr/bin/env bash
# Builds the Debian packages, has lintian check them, and installs them in a bare Debian 12 in a folder of its own: the example of
# the README is compiled there with pkg-config and with CMake, and runs; the tools run; purged, the packages leave nothing.
#
#   packaging/test.sh [FOLDER]      FOLDER: where packages lie that were built already
#
# Exit code 77: the mirror that apt takes for this Debian cannot be reached. Takes minutes, most of them for downloads; nothing outside of the build folder
# changes.
set -euo pipefail
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
debs=$(realpath "${1:-$(dirname "$0")/../build/package}")
cd "$(dirname "$0")/.."
. tools/packages.sh
ensure_packages "${build_packages[@]}" "${picture_packages[@]}" lintian mmdebstrap python3
if [ $# -eq 0 ]; then
  say "Building the packages"
  cmake --preset package >/dev/null
  cmake --build --preset package
fi

say "Checking them"
lintian --allow-root --fail-on error,warning "$debs"/*.deb

# Runs in the bare system, in /packages, as root.
inside='
set -eu
cd /packages
export DEBIAN_FRONTEND=noninteractive OMP_WAIT_POLICY=passive
apt-get update -q
apt-get install -q -y --no-install-recommends ./*.deb pkg-config cmake make gcc libc6-dev
all_files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /var/log \
  -o -path "/var/cache/*" -o -path "/var/lib/dpkg/*-old" \) -prune -o -print | sort; }
names="libassay1 libassay-dev assay-tools"

# Once there and gone: what is left now are the packages they need.
dpkg --purge $names
all_files >/tmp/before
dpkg -i ./*.deb

echo "-- pkg-config"
gcc -std=c11 train_and_serve.c -o by_pkg_config $(pkg-config --cflags --libs assay)
./by_pkg_config one.ckpt | tee one.txt
grep -Eq "accuracy (9[0-9]|100)\." one.txt
echo "-- CMake"
cmake -S outside -B build -DEXAMPLE=/packages/train_and_serve.c >/dev/null
cmake --build build >/dev/null
build/consumer two.ckpt | tee two.txt
grep -Eq "accuracy (9[0-9]|100)\." two.txt
echo "-- the tools"
assay-checkpoint verify one.ckpt
recipe-run list | tail -n 3
dataset-convert --list | head -n 3
assay-predict --help >/dev/null
for program in assay-checkpoint recipe-run dataset-convert assay-predict; do gzip -t /usr/share/man/man1/$program.1.gz; done

echo "-- purge"
dpkg --purge $names
all_files >/tmp/after
diff /tmp/before /tmp/after
if grep -i assay /tmp/after; then echo "these are left" >&2; exit 1; fi
if dpkg-query -W -f "\${Package} \${Status}\n" | grep assay; then echo "dpkg still knows these" >&2; exit 1; fi
echo "installed, used, purged: nothing is left"
'

say "Installing them in a bare Debian 12"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 'Created-By: Packages' | sed -n '1s|/$||p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$debs"/*.deb capi/examples/train_and_serve.c "$work"
cp -r tests/consumer/outside "$work"
printf '%s' "$inside" >"$work/inside.sh"
if ! /usr/lib/apt/apt-helper download-file "$mirror/dists/bookworm/Release" "$work/Release" >/dev/null; then
  echo "${mirror:-a mirror of bookworm, for apt knows none,} cannot be reached" >&2
  exit 77
fi
mmdebstrap --quiet --variant=minbase --customize-hook="copy-in $work /" --customize-hook="mv \"\$1/$(basename "$work")\" \"\$1/packages\"" \
  --chrooted-customize-hook="sh /packages/inside.sh" bookworm /dev/null "$mirror"
