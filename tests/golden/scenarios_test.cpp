// SPDX-License-Identifier: Apache-2.0
// What every scenario of the project gives, in figures that can be read in a diff and a digest of all the
// rest. Any compiler, build type and machine has to give the same. `GPUSIM_APPROVE=1 scenarios_golden_test`
// rewrites scenarios.txt after an intended change; read the difference before committing it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/app/expectations.hpp"
#include "sim/app/run_variant.hpp"
#include "sim/config/input_digest.hpp"
#include "sim/report/format.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"

namespace fs = std::filesystem;

namespace {

const fs::path root = GPUSIM_SOURCE_DIR;
const fs::path golden = root / "tests/golden/scenarios.txt";

/// Paths from the root of the project, sorted.
std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "scenarios")) {
    const std::string folder = entry.path().parent_path().filename().string();
    if (folder == "hardware" || folder == "hosts" || folder == "backends") continue;
    if (entry.path().extension() == ".yaml") files.push_back(fs::relative(entry.path(), root).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A line for the scenario, and one for each variant.
std::string outcome(const std::string& file, const std::shared_ptr<gpusim::config::FileStore>& store) {
  gpusim::ScenarioOptions options;
  options.metrics = gpusim::metric_paths();
  options.files = store;
  gpusim::TraceStore traces;
  gpusim::report::ScenarioReport report =
      gpusim::run_scenario(gpusim::read_scenario((root / file).string(), options), traces);
  std::string variants;
  for (const gpusim::report::VariantResult& variant : report.variants) {
    const gpusim::report::Metrics m = gpusim::report::metrics(variant);
    variants += fmt::format("  {}: step {} us, busy {} us, {} GPU ops, {} + {} launches, peak {} bytes\n",
                            m.variant, gpusim::report::exact_microseconds(m.step_time),
                            gpusim::report::exact_microseconds(m.gpu_busy), m.gpu_ops, m.kernel_launches,
                            m.cuda_graph_launches, m.peak_memory_bytes);
  }
  // Places in files are no result.
  report.file = file;
  report.expectations.clear();
  const std::string json = gpusim::report::to_json({report}, "");
  return fmt::format("{} {}\n{}", file, gpusim::config::sha256(json).substr(0, 16), variants);
}

/// Blocks by the scenario that they begin with.
std::map<std::string, std::string> expected() {
  std::map<std::string, std::string> blocks;
  std::ifstream in(golden, std::ios::binary);
  std::string file;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (line.front() != ' ') file = line.substr(0, line.find(' '));
    blocks[file] += line + '\n';
  }
  return blocks;
}

}  // namespace

TEST_CASE("Every scenario gives the figures that it has always given") {
  const auto store = std::make_shared<gpusim::config::FileStore>();
  const bool approve = std::getenv("GPUSIM_APPROVE") != nullptr;
  std::map<std::string, std::string> before = expected();
  std::string text =
      "# What each scenario gives; the digest is of its whole JSON. Written by GPUSIM_APPROVE=1 "
      "scenarios_golden_test.\n"
      "# Launches are of kernels + of CUDA graphs.\n";
  for (const std::string& file : scenario_files()) {
    const std::string now = outcome(file, store);
    text += now;
    if (!approve) CHECK(now == before[file]);
    before.erase(file);
  }
  if (approve) {
    std::ofstream(golden, std::ios::binary) << text;
    SUCCEED("approved " << golden);
    return;
  }
  for (const auto& [gone, block] : before) FAIL_CHECK(gone << " is in scenarios.txt, and no scenario");
}
