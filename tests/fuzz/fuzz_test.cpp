// SPDX-License-Identifier: Apache-2.0
// Every target over its inputs and over mutations of them, the same ones each time, without libFuzzer.
//
//   fuzz_test                        all targets, some mutations of each input
//   fuzz_test TARGET [N] [SEED]      one target, N mutations of each input
//   fuzz_test TARGET FILE...         these inputs, as they are
//   fuzz_test TARGET --mutate FILE SEED   prints a mutation
//
// GPUSIM_FUZZ_SHOW=1 names each input, GPUSIM_FUZZ_LAST=FILE keeps the last one in a file.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/targets.hpp"

namespace {

namespace fs = std::filesystem;
using gpusim::fuzz::Target;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> inputs_of(const Target& target) {
  const fs::path root = GPUSIM_SOURCE_DIR;
  std::vector<fs::path> folders{root / "tests/fuzz/corpus" / target.name};
  for (const char* folder : target.seeds) folders.push_back(root / folder);
  std::vector<fs::path> files;
  for (const fs::path& folder : folders) {
    std::error_code none;
    for (fs::recursive_directory_iterator entry(folder, none), end; !none && entry != end;
         entry.increment(none))
      if (entry->is_regular_file()) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The input as it is, and mutations of it.
struct Rounds {
  unsigned own = 1;       ///< Of inputs that were written for the target.
  unsigned every = 1;     ///< Of the project's own files every so many ...
  unsigned of_those = 0;  ///< ... so often.
  std::uint64_t seed = 1;
};

class Runner {
 public:
  /// Seconds of the slowest input.
  double slowest() const { return slowest_; }
  std::size_t count() const { return count_; }

  void run(const Target& target, const std::string& text, const std::string& name) {
    last_ = std::string(target.name) + ": " + name;
    if (std::getenv("GPUSIM_FUZZ_SHOW") != nullptr) std::fprintf(stderr, "%s\n", last_.c_str());
    // The one that ends the process is left there.
    if (const char* file = std::getenv("GPUSIM_FUZZ_LAST")) std::ofstream(file, std::ios::binary) << text;
    const auto begin = std::chrono::steady_clock::now();
    target.run(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ++count_;
    if (took.count() > slowest_) {
      slowest_ = took.count();
      slowest_name_ = last_;
    }
  }
  void report() const {
    std::printf("%zu inputs answered; the slowest took %.2f s: %s\n", count_, slowest_,
                slowest_name_.c_str());
  }

 private:
  std::size_t count_ = 0;
  double slowest_ = 0;
  std::string last_;
  std::string slowest_name_;
};

void run_target(const Target& target, const Rounds& rounds, Runner& runner) {
  const std::string corpus = std::string("corpus/") + target.name;
  unsigned other = 0;
  for (const fs::path& file : inputs_of(target)) {
    const bool own = file.string().find(corpus) != std::string::npos;
    if (!own && other++ % rounds.every != 0) continue;
    const std::string text = text_of(file);
    if (own) runner.run(target, text, file.string());
    for (unsigned i = 0; i < (own ? rounds.own : rounds.of_those); ++i) {
      const std::uint64_t seed = rounds.seed * 1'000'003 + i;
      runner.run(target, target.mutate(text, seed), file.string() + ", mutation " + std::to_string(seed));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  Runner runner;
  bool found = arguments.empty();
  for (const Target& target : gpusim::fuzz::targets()) {
    if (arguments.empty()) {
      run_target(target, {.own = 4, .every = 12, .of_those = 2}, runner);
      continue;
    }
    if (arguments.front() != target.name) continue;
    found = true;
    if (arguments.size() == 4 && arguments[1] == "--mutate") {
      std::fputs(target.mutate(text_of(arguments[2]), std::stoull(arguments[3])).c_str(), stdout);
      return 0;
    }
    if (arguments.size() > 1 && !fs::exists(arguments[1])) {
      const auto n = static_cast<unsigned>(std::stoul(arguments[1]));
      const std::uint64_t seed = arguments.size() > 2 ? std::stoull(arguments[2]) : 1;
      run_target(target, {.own = n, .every = 1, .of_those = n, .seed = seed}, runner);
    }
    for (std::size_t i = 1; i < arguments.size() && fs::exists(arguments[i]); ++i)
      runner.run(target, text_of(arguments[i]), arguments[i]);
  }
  if (!found) {
    std::fprintf(stderr, "no target '%s'\n", arguments.front().c_str());
    return 2;
  }
  runner.report();
  return runner.count() > 0 ? 0 : 1;
}
