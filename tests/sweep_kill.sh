#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sweep that is killed (kill -9) at a random moment, again and again, and gone on with by --resume, ends with the
# same bytes as one that nobody disturbed.
#
#     tests/sweep_kill.sh GPUSIM [SWEEPS [SEED]]      (10 sweeps if not given)
set -eu
gpusim=$1
sweeps=${2:-10}
RANDOM=${3:-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/step.yaml" <<'YAML'
name: step
hardware: h200
workload: {kernels: [{kernel: k, duration: 3 us, repeat: 300}]}
variants:
  eager: {}
  graph: {cuda_graph: full}
YAML

command=("$gpusim" sweep "$folder/step.yaml" --jobs 2 --columns makespan,step_time,regime
         --vary 'workload.kernels.0.repeat=100:300:1' --vary 'hardware.launch.call=1 us,3 us,6 us')
sweep() {
  "${command[@]}" "$@" 2>"$folder/err"
}
rows() {  # What the file says, in its order.
  case $1 in
    *.sqlite) sqlite3 "$1" 'SELECT * FROM results ORDER BY rowid' ;;
    *) cat "$1" ;;
  esac
}

endings="csv jsonl"
if command -v sqlite3 >/dev/null && sweep --out "$folder/try.sqlite"; then endings="$endings sqlite"; fi
for ending in $endings; do sweep --out "$folder/whole.$ending"; done
begin=$(date +%s%N)
sweep --out "$folder/timed.csv"
took=$(($(date +%s%N) - begin))

interrupted=0
for i in $(seq "$sweeps"); do
  ending=$(echo $endings | tr ' ' '\n' | sed -n "$((i % $(echo $endings | wc -w) + 1))p")
  out=$folder/killed.$ending
  rm -f "$out"*
  kills=0
  # Up to three kills, each at any time within what is left of the sweep, as far as one can tell.
  while [ $kills -lt $((RANDOM % 3 + 1)) ]; do
    "${command[@]}" --resume --out "$out" 2>"$folder/err" &
    process=$!
    sleep "$(awk -v ns="$took" -v r=$RANDOM 'BEGIN {print ns * r / 32768 / 1e9}')"
    if kill -9 $process 2>/dev/null; then interrupted=$((interrupted + 1)); fi
    wait $process 2>/dev/null || true
    kills=$((kills + 1))
  done
  sweep --resume --out "$out" || { echo "sweep $i cannot go on:"; cat "$folder/err"; exit 1; }
  if ! cmp -s <(rows "$out") <(rows "$folder/whole.$ending"); then
    echo "sweep $i: $ending differs after $kills kills"
    diff <(rows "$out") <(rows "$folder/whole.$ending") | head
    exit 1
  fi
done
echo "$sweeps sweeps, killed $interrupted times: all as if undisturbed"
