#!/usr/bin/env bash
# two_hosts.sh COMMAND...: runs it as two ranks of mpirun on two hosts that are network namespaces of this machine, with a slow
# link between them that loses packets. LINK: a queueing discipline of tc, or "none" for a fast link; if not given, that of netem,
# or where the kernel has none a narrow one that drops what would wait. 77 where the system does not allow namespaces.
set -euo pipefail
export LSAN_OPTIONS=detect_leaks=0 # as comm/run_ranks.sh
if [ "${1:-}" = --on-host ]; then # as mpirun calls its rsh agent: --on-host ADDRESS COMMAND..., the command in words for a shell
  host=$2
  shift 2
  exec ip netns exec "assay$TWO_HOSTS-${host##*.}" unshare --uts bash -c "hostname assay-host-${host##*.}; $*"
fi
for tool in mpirun ip tc unshare; do
  command -v $tool > /dev/null || { echo "$tool is not installed"; exit 77; }
done
# shellcheck disable=SC2086 # words of tc
set_link() {
  local add="ip netns exec $1 tc qdisc add dev wire root"
  case ${LINK:-} in
    none) ;;
    "") $add netem delay 2ms loss 1% 2> /dev/null || $add tbf rate 100mbit burst 32kbit latency 4ms ;;
    *) $add $LINK ;;
  esac
}
export TWO_HOSTS=$$
first=assay$$-1 second=assay$$-2
ip netns add "$first" 2> /dev/null || { echo "network namespaces are not allowed here"; exit 77; }
trap 'ip netns del $first; ip netns del $second 2> /dev/null || true' EXIT
ip netns add "$second"
ip -n "$first" link add wire type veth peer name wire netns "$second"
for side in 1 2; do
  namespace=assay$$-$side
  ip -n "$namespace" address add 10.147.14.$side/24 dev wire
  ip -n "$namespace" link set lo up
  ip -n "$namespace" link set wire up
  set_link "$namespace"
done
# shellcheck disable=SC2016
ip netns exec "$first" unshare --uts bash -c 'hostname assay-host-1; exec "$@"' - \
  mpirun --allow-run-as-root -np 2 --host 10.147.14.1:1,10.147.14.2:1 --map-by node \
  --mca plm_rsh_agent "$(realpath "$0") --on-host" --mca btl_tcp_if_include wire --mca oob_tcp_if_include wire "$@"
