#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the plotting library of `gpusim run --html` from npm into build/echarts, where CMake looks for it: one version,
# held to its checksum. Does nothing when it is there. Exits with 1 where it cannot be had; gpusim builds without it, and
# --html then says what is missing.
set -eu
cd "$(dirname "$0")/.."

version=6.1.0
package=681aff88cc1038c3fa941a3a53d1b177a52250b05335efc607d6105ae13be481  # sha256 of the package
folder=build/echarts

[ "$(cat $folder/version 2>/dev/null || true)" != "$version" ] || exit 0

if ! command -v npm >/dev/null 2>&1; then
  echo "npm is not installed: gpusim is built without HTML reports (--html)" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! (cd "$work" && npm pack --silent "echarts@$version" >/dev/null 2>npm.log); then
  cat "$work/npm.log" >&2
  echo "npm could not fetch echarts $version: gpusim is built without HTML reports (--html)" >&2
  exit 1
fi
if ! echo "$package  $work/echarts-$version.tgz" | sha256sum --check --status; then
  echo "echarts-$version.tgz is not the package that it should be (sha256): not used" >&2
  exit 1
fi
tar -xzf "$work/echarts-$version.tgz" -C "$work"
mkdir -p "$folder"
for file in dist/echarts.min.js LICENSE NOTICE licenses/LICENSE-d3; do
  cp "$work/package/$file" "$folder/"
done
echo "$version" >"$folder/version"
echo "echarts $version installed in $folder" >&2
