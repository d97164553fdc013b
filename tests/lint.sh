#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Static analysis of models/ and sim/: cppcheck, and clang-tidy with the checks of .clang-tidy. Prints what they find and
# exits with 1 if that is anything.
#
#     tests/lint.sh BUILD [cppcheck|tidy] [FILE...]
#
# BUILD is a build folder with compile_commands.json (each preset's has one); FILEs are sources for clang-tidy, all if none
# are given. Needs Debian's cppcheck and clang-tidy.
set -u
cd "$(dirname "$0")/.." || exit
build=$1
what=${2:-all}
shift $(($# < 2 ? $# : 2))
failed=0
jobs=${JOBS:-$(nproc)}

if [ "$what" != tidy ]; then
  cppcheck --std=c++20 --language=c++ --enable=warning,performance,portability --inline-suppr \
    --suppressions-list=tests/cppcheck.supp --suppress=missingInclude --suppress=missingIncludeSystem -I . --quiet \
    -j "$jobs" --error-exitcode=1 --template='{file}:{line}: {severity}: {id}: {message}' models sim || failed=1
fi
if [ "$what" != cppcheck ]; then
  [ $# -gt 0 ] || mapfile -t files < <(find models sim -name '*.cpp' | LC_ALL=C sort)
  [ $# -eq 0 ] || files=("$@")
  printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 1 clang-tidy --quiet -p "$build" 2>/dev/null || failed=1
fi
[ $failed = 1 ] || echo "nothing found"
exit $failed
