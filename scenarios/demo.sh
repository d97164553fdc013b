#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs, builds gpusim and answers a real question: where the time of a profiled Llama-8B decode step goes, and what
# one CUDA graph would change.
set -eu
cd "$(dirname "$0")/.."
sh cmake/install_packages.sh
cmake --preset release -DGPUSIM_BUILD_TESTS=OFF >&2
cmake --build --preset release --target gpusim >&2
exec build/release/sim/app/gpusim run "${@:-scenarios/llama8b_decode.yaml}"
