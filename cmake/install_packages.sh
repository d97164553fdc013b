#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what gpusim builds with, on Debian and its relatives: as root, or through sudo. Does nothing when all is
# there, so that it can stand before every build and works without a network then. Elsewhere it names what is needed.
set -eu

packages="g++ cmake ninja-build libboost-dev libboost-graph-dev libyaml-cpp-dev libcli11-dev libfmt-dev
          nlohmann-json3-dev libsimdjson-dev libnlopt-dev zlib1g-dev nettle-dev libtbb-dev libsqlite3-dev
          libopenmpi-dev openmpi-bin libmimalloc-dev
          pybind11-dev python3-dev python3-numpy python3-pandas python3-matplotlib
          catch2 librapidcheck-dev
          libbenchmark-dev"

if ! command -v apt-get >/dev/null 2>&1; then
  cat >&2 <<TEXT
This system has no apt-get. gpusim needs a C++20 compiler (g++ 12 or clang 14 or newer), CMake 3.25, Ninja, and:
  Boost 1.74, yaml-cpp 0.7, CLI11 2.1, fmt 9, nlohmann-json 3.11, simdjson 3.0, NLopt 2.7, zlib, Nettle 3.8, oneTBB 2021,
  SQLite 3.40, MPI, mimalloc 2 and pybind11 2.10 (all four optional), Catch2 2.13 or 3,
  RapidCheck, Google Benchmark 1.7 (or newer of each).
Going on: CMake will say what it does not find.
TEXT
  exit 0
fi

missing=
for package in $packages; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  case "$state" in ii*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1; then
  as_root=sudo
else
  echo "gpusim needs these packages, and there is neither root nor sudo to install them:$missing" >&2
  exit 1
fi
echo "Installing:$missing" >&2
$as_root apt-get update >/dev/null
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null
