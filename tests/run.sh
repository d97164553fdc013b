#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs, configures, builds and tests, as CI does. Ends with ctest's summary.
set -eu
cd "$(dirname "$0")/.."
sh cmake/install_packages.sh
sh cmake/install_echarts.sh || true  # Optional: HTML reports.
cmake --workflow --preset ci
