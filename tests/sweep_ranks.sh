#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sweep over four ranks of an MPI job gives the bytes of one process; where a rank is killed, that is said, and
# --resume completes the file.
#
#     tests/sweep_ranks.sh GPUSIM
set -eu
gpusim=$1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$1"
  cat "$folder/err"
  exit 1
}

cat >"$folder/step.yaml" <<'YAML'
name: step
hardware: h200
workload: {kernels: [{kernel: k, duration: 3 us, repeat: 300}]}
variants:
  eager: {}
  graph: {cuda_graph: full}
YAML
command=("$gpusim" sweep "$folder/step.yaml" --columns makespan,step_time,regime
         --vary 'workload.kernels.0.repeat=1:300:1,x' --vary 'hardware.launch.call=1 us:6 us:500 ns')
job=(mpirun -n 4 --oversubscribe)

"${command[@]}" --out "$folder/one.csv" 2>"$folder/err" || fail "one process"
"${job[@]}" "${command[@]}" --out "$folder/four.csv" 2>"$folder/err" || fail "four ranks"
cmp "$folder/one.csv" "$folder/four.csv" || fail "four ranks write other bytes"
grep -q '22 of 6622 rows have an error; the first, at point 3300' "$folder/err" || fail "errors of ranks are lost"
"${job[@]}" "${command[@]}" 2>"$folder/err" | cmp - "$folder/one.csv" || fail "other bytes on standard output"
if "${job[@]}" "$gpusim" sweep "$folder/step.yaml" --vary nonsense=1 2>"$folder/err"; then fail "bad input passes"; fi
[ "$(grep -c 'nonsense: unknown key' "$folder/err")" = 1 ] || fail "one mistake is not said once"

for victim in 1 0; do
  rm -f "$folder"/pid.* "$folder"/cut.csv*
  # shellcheck disable=SC2016
  "${job[@]}" sh -c 'echo $$ >"$0/pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' "$folder" "${command[@]}" \
    --out "$folder/cut.csv" >"$folder/err" 2>&1 &
  launcher=$!
  # Once it has begun to write, and long before its end.
  for _ in $(seq 200); do
    [ -s "$folder/cut.csv" ] && [ "$(wc -c <"$folder/cut.csv")" -gt 2000 ] && break
    sleep 0.02
  done
  kill -9 "$(cat "$folder/pid.$victim")" 2>/dev/null || fail "rank $victim was not there to be killed"
  if wait $launcher; then fail "nobody says that rank $victim was killed"; fi
  grep -q 'signal 9' "$folder/err" || fail "nobody says that rank $victim was killed"
  cut=$(wc -c <"$folder/cut.csv")
  [ "$cut" -lt "$(wc -c <"$folder/one.csv")" ] || fail "the kill came too late"
  "${job[@]}" "${command[@]}" --out "$folder/cut.csv" --resume 2>"$folder/err" || fail "resuming"
  cmp "$folder/one.csv" "$folder/cut.csv" || fail "other bytes after rank $victim was killed at $cut bytes"
  echo "rank $victim killed at $cut of $(wc -c <"$folder/one.csv") bytes: complete after --resume"
done
