#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same bytes from every output of every scenario: again, in another locale and time zone, from another folder, with
# other addresses and hashes, with any number of threads, and from other builds.
#
#     tests/determinism.sh GPUSIM [OTHER_GPUSIM...]
#
# OTHER_GPUSIM are builds by other compilers, without optimisation, with sanitizers, or with shuffled sorts (compile with
# -include tests/support/shuffled_sort.hpp). Prints a line for each comparison; exits with 1 if one fails.
set -u
cd "$(dirname "$0")/.." || exit
root=$PWD
reference=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t scenarios < <(find scenarios -name '*.yaml' -not -path '*/hardware/*' -not -path '*/hosts/*' -not -path '*/backends/*' |
  LC_ALL=C sort)
failed=0

# outputs FOLDER COMMAND...: all outputs of the program that COMMAND runs, as files. Errors are outputs too.
outputs() {
  local into=$1
  shift
  mkdir -p "$into"
  "$@" run "${scenarios[@]}" >"$into/run.text" 2>"$into/run.text.err"
  "$@" run --critical-path --format json "${scenarios[@]}" >"$into/run.json" 2>"$into/run.json.err"
  "$@" run --seed 7 --steps 3 --format csv scenarios/*.yaml >"$into/steps.csv" 2>"$into/steps.err"
  for file in scenarios/compilers.yaml scenarios/graph_breaks.yaml scenarios/train_gpt2.yaml; do
    "$@" explain --format json "$file"
    "$@" explain "$file"
  done >"$into/explain" 2>"$into/explain.err"
  "$@" run scenarios/llama8b_decode.yaml --trace "$into/timeline.json" >/dev/null 2>&1
  "$@" advise scenarios/gpt2_prefill.yaml --jobs 2 >"$into/advise" 2>&1
  for jobs in 1 2 8; do
    "$@" sweep scenarios/launch_bound_decode.yaml --columns all --jobs $jobs \
      --vary 'workload.kernels.0.launch=1 us:7 us:500 ns' >"$into/sweep.$jobs" 2>"$into/sweep.err"
    "$@" sweep scenarios/gpt2_prefill.yaml --jobs $jobs --vary hardware=h200,a100_80gb --vary workload.batch=1:4:1 \
      --out "$into/network.$jobs.jsonl" 2>/dev/null
    cmp "$into/sweep.1" "$into/sweep.$jobs" >>"$into/jobs" 2>&1
    cmp "$into/network.1.jsonl" "$into/network.$jobs.jsonl" >>"$into/jobs" 2>&1
  done
  [ ! -s "$into/jobs" ] || { cat "$into/jobs"; failed=1; }
  for trace in tests/data/traces/*.json.gz; do
    for what in summary critical-path; do "$@" trace $what --format json "$trace"; "$@" trace $what "$trace"; done
    "$@" trace import "$trace"
    "$@" trace what-if "$trace" --change cuda_graph
  done >"$into/traces" 2>"$into/traces.err"
  "$@" trace diff tests/data/traces/hand_ln_gelu_16384x4096_eager.trace.json.gz \
    tests/data/traces/seed_decoder_B4_T1024_eager.trace.json.gz >"$into/diff" 2>&1
  for what in hardware hosts networks backends interconnects ops; do "$@" list $what; done >"$into/lists" 2>&1
}

# compare NAME: the outputs in $work/NAME against the reference's.
compare() {
  local different
  if different=$(diff -rq "$work/reference" "$work/$1"); then
    echo "same    $1"
  else
    echo "DIFFERS $1"
    echo "$different"
    diff -r "$work/reference" "$work/$1" | head -20 | cut -c1-200
    failed=1
  fi
  rm -rf "${work:?}/$1"
}

outputs "$work/reference" env -i LC_ALL=C TZ=UTC "$reference"
echo "$(find "$work/reference" -type f | wc -l) files, $(du -sb "$work/reference" | cut -f1) bytes from ${#scenarios[@]} scenarios"
for file in run.text run.json traces timeline.traced.json network.1.jsonl; do
  [ -s "$work/reference/$file" ] || { echo "no output in $file"; failed=1; }
done

outputs "$work/again" "$reference" && compare again
if command -v setarch >/dev/null; then
  outputs "$work/fixed-addresses" setarch -R "$reference" && compare fixed-addresses
fi

# Another folder, with copies of what is read.
mkdir "$work/elsewhere"
cp -r scenarios tests "$work/elsewhere/"
cd "$work/elsewhere" && outputs "$work/another-folder" env TZ=Asia/Kathmandu "$reference" && compare another-folder
cd "$root" || exit 1

# A locale with decimal commas and grouped thousands, and other hashes.
if ${CXX:-c++} -std=c++17 -O1 -shared -fPIC -o "$work/other_world.so" tests/support/other_world.cpp; then
  mkdir "$work/locales"
  world=(env LD_PRELOAD="$work/other_world.so")
  if localedef -i de_DE -f UTF-8 "$work/locales/de_DE.UTF-8" 2>/dev/null; then
    outputs "$work/german" "${world[@]}" LOCPATH="$work/locales" LC_ALL=de_DE.UTF-8 "$reference" && compare german
  else
    echo "skipped german: no localedef, or no locale sources"
  fi
  for seed in 1 2; do
    outputs "$work/hashes-$seed" "${world[@]}" LC_ALL=C GPUSIM_TEST_HASH_SEED=$seed "$reference" && compare hashes-$seed
  done
fi

for other in "$@"; do
  name=$(realpath "$other" | tr / _)
  outputs "$work/$name" "$(realpath "$other")" && compare "$name"
done
exit $failed
