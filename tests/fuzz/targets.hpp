// SPDX-License-Identifier: Apache-2.0
// What is fed with hostile input. Each target takes the input as gpusim would find it in a file or argument,
// goes all the way with what is accepted, and ends the process where anything but an answer or a located
// error comes of it. docs/reliability.md tells how to run them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpusim::fuzz {

void scenario(std::string_view text);    ///< A scenario: read, run, reported in each format.
void network(std::string_view text);     ///< A network's file: its steps built, priced and run.
void config(std::string_view text);      ///< {hardware, host, backend, interconnect}: a step run with them.
void hf_config(std::string_view text);   ///< A model's config.json.
void trace(std::string_view text);       ///< A profiler's trace: summed up, replayed, imported, compared.
void expression(std::string_view text);  ///< Lines of a network's body.
void paths(std::string_view text);       ///< Lines of `--set` and, behind "vary ", of `--vary`.

struct Target {
  const char* name;
  void (*run)(std::string_view text);
  /// Another input made of this one; the same for the same seed.
  std::string (*mutate)(std::string_view text, std::uint64_t seed);
  /// Folders and files of the project to begin with, beside tests/fuzz/corpus/NAME.
  std::span<const char* const> seeds;
};
std::span<const Target> targets();

}  // namespace gpusim::fuzz
