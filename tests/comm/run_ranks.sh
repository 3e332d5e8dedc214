#!/usr/bin/env bash
# run_ranks.sh MPI_RANKS: its tests as the ranks of MPI, two and then three; 77 without Open MPI.
set -euo pipefail
if ! command -v mpirun > /dev/null; then
  echo "mpirun is not installed (Debian: openmpi-bin)"
  exit 77
fi
export LSAN_OPTIONS=detect_leaks=0 # Open MPI does not free what its plug-ins hold, and closes them before a leak could be told
for ranks in 2 3; do
  mpirun --allow-run-as-root --oversubscribe -np "$ranks" "$1" --gtest_filter='Mpi.*'
done
# Ranks that were let down do not finalize MPI, which mpirun has to allow; each says how its test went.
for test in $("$1" --gtest_list_tests --gtest_filter='MpiFailures.*' | sed -n 's/^  //p'); do
  said=$(mpirun --allow-run-as-root --oversubscribe --mca orte_allowed_exit_without_sync 1 -np 2 "$1" \
    --gtest_filter="MpiFailures.$test" --gtest_color=no 2>&1) || true
  if [ "$(grep -c '  PASSED  \] 1 test' <<< "$said")" != 2 ]; then
    echo "$said"
    exit 1
  fi
done
