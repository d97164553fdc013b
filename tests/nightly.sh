#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is too long for every change: sanitizers over the whole suite, the same bytes from other builds, static analysis,
# coverage. Each part in a build folder of its own below build/nightly; logs lie beside it. Prints a line for each part with
# its duration, and exits with 1 if one failed.
#
#     tests/nightly.sh [address thread determinism lint coverage]      # all if none are named
set -u
cd "$(dirname "$0")/.." || exit
root=$PWD
night=$root/build/nightly
mkdir -p "$night"
jobs=${JOBS:-$(nproc)}
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$root/tests/tsan.supp:halt_on_error=1
clang=(-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang)
plain=(-G Ninja -DGPUSIM_PYTHON=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)

configure() {
  local name=$1
  shift
  cmake -S . -B "$night/$name" "${plain[@]}" "$@" >/dev/null
}

# Address and undefined behaviour, with the checks of libstdc++'s own containers: the whole suite.
address() {
  configure address "${clang[@]}" -DCMAKE_BUILD_TYPE=Debug -DGPUSIM_SANITIZE=ON -DGPUSIM_WERROR=ON \
    -DCMAKE_CXX_FLAGS_DEBUG="-O1 -gline-tables-only -D_GLIBCXX_ASSERTIONS" &&
    cmake --build "$night/address" -j "$jobs" && ctest --test-dir "$night/address" -j "$jobs" --output-on-failure --timeout 3600
}

# Threads: where there are any. The engine and the models have none.
thread() {
  configure thread -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DGPUSIM_MIMALLOC=OFF -DGPUSIM_MPI=OFF \
    -DCMAKE_CXX_FLAGS="-fsanitize=thread" &&
    cmake --build "$night/thread" -j "$jobs" --target gpusim sweep_test trace_test app_test app_advise_test engine_test &&
    ctest --test-dir "$night/thread" --output-on-failure --timeout 3600 \
      -R '^(sweep_test|trace_test|app_test|app_advise_test|engine_test|sweep_kill)$'
}

# The release build against one by the other compiler, and one without optimisation whose sorts shuffle what is equal.
determinism() {
  configure gcc -DCMAKE_BUILD_TYPE=Release -DGPUSIM_BUILD_TESTS=OFF && cmake --build "$night/gcc" -j "$jobs" --target gpusim &&
    configure clang "${clang[@]}" -DCMAKE_BUILD_TYPE=Release -DGPUSIM_BUILD_TESTS=OFF &&
    cmake --build "$night/clang" -j "$jobs" --target gpusim &&
    configure debug -DCMAKE_BUILD_TYPE=Debug -DGPUSIM_BUILD_TESTS=OFF \
      -DCMAKE_CXX_FLAGS="-include $root/tests/support/shuffled_sort.hpp" &&
    cmake --build "$night/debug" -j "$jobs" --target gpusim &&
    tests/determinism.sh "$night"/{gcc,clang,debug}/sim/app/gpusim
}

lint() {
  [ -f "$night/gcc/compile_commands.json" ] || configure gcc -DCMAKE_BUILD_TYPE=Release -DGPUSIM_BUILD_TESTS=OFF
  JOBS=$jobs tests/lint.sh "$night/gcc"
}

coverage() { JOBS=$jobs tests/coverage.sh "$night/coverage"; }

failed=0
[ $# -gt 0 ] || set -- address thread determinism lint coverage
for part in "$@"; do
  begin=$SECONDS
  result=ok
  "$part" >"$night/$part.log" 2>&1 || { result=FAILED; failed=1; }
  printf '%-7s %-12s %3d min %02d s   %s\n' $result "$part" $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)) \
    "$night/$part.log"
done
exit $failed
