#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How much of models/ and sim/ the tests run: lines, and branches without those that only exceptions take (the compiler
# makes one for every call that may throw; nothing in the source is behind it) and without those that it marks as
# unreachable. Needs gcovr (Debian) and g++. Exits with 1 below the limits.
#
#     tests/coverage.sh [BUILD]        # build/coverage if not given; half an hour on two cores, most of it compiling
#
# LINES=90 BRANCHES=80 are the limits; REPORT=FILE.txt has the figure of each file.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/coverage}
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O0 --coverage -fprofile-update=atomic" \
  -DGPUSIM_PYTHON=OFF >/dev/null
cmake --build "$build"
find "$build" -name '*.gcda' -delete
# Debug builds are slow: what has a limit on time may fail; what was run counts.
ctest --test-dir "$build" -j "${JOBS:-$(nproc)}" --timeout 1800 || echo "some tests failed"
gcovr --root . --object-directory "$build" --filter 'models/' --filter 'sim/' --exclude-throw-branches \
  --exclude-unreachable-branches -j "${JOBS:-$(nproc)}" --txt "${REPORT:-$build/coverage.txt}" --print-summary \
  --fail-under-line "${LINES:-90}" --fail-under-branch "${BRANCHES:-80}"
