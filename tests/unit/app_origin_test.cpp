// SPDX-License-Identifier: Apache-2.0
// Each output says which gpusim made it, and of what.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::run_gpusim;

namespace {

constexpr const char* kernels = R"(name: small
hardware: {base: h200}
workload: {kernels: [{kernel: k, duration: 3 us, launch: 6 us, repeat: 3}]}
)";
constexpr const char* network = R"(name: compiled
hardware: h200
host: xeon-h200-cloud
backend: inductor
workload: {network: seed_mlp}
)";

std::string input_in(const std::string& json) {
  return nlohmann::json::parse(json)["scenarios"][0]["input"];
}

std::string version() {
  const Folder folder;
  const std::string line = run_gpusim(folder, "--version").out;  // "gpusim 0.1.0"
  return line.substr(line.find(' ') + 1, line.size() - line.find(' ') - 2);
}

}  // namespace

TEST_CASE("Text, JSON, CSV and the timeline of a run bear the version and the same digest") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", kernels);
  const std::string input = input_in(run_gpusim(folder, "run --format json " + file).out);
  REQUIRE(input.size() == std::string("sha256:").size() + 64);

  const std::string text = run_gpusim(folder, "run " + file).out;
  const std::string line = "gpusim " + version() + ", input " + input.substr(0, 23) + "\n";
  CHECK(text.substr(text.size() - line.size()) == line);

  const std::string csv = run_gpusim(folder, "run --format csv " + file).out;
  CHECK_THAT(csv, ContainsSubstring(",gpusim,input\n"));
  CHECK_THAT(csv, ContainsSubstring("," + version() + "," + input + "\n"));

  run_gpusim(folder, "run " + file + " --trace " + (folder / "timeline.json"));
  const auto timeline = nlohmann::json::parse(content(folder / "timeline.json"));
  CHECK(timeline["gpusim"] == version());
  CHECK(timeline["input"] == input);
}

TEST_CASE("explain and advise bear the version and the digest too") {
  const Folder folder;
  const std::string file = folder.write("compiled.yaml", network);
  const std::string input = input_in(run_gpusim(folder, "run --format json " + file).out);
  for (const std::string command : {"explain ", "advise "}) {
    const auto json = nlohmann::json::parse(run_gpusim(folder, command + file + " --format json").out);
    CHECK(json["gpusim"] == version());
    CHECK(json["input"] == input);
    CHECK_THAT(run_gpusim(folder, command + file).out,
               ContainsSubstring("gpusim " + version() + ", input " + input.substr(0, 23) + "\n"));
  }
}

TEST_CASE("A run's digest is the same in any folder, and another once a file that it reads is another") {
  const Folder folder;
  const auto input = [&](const std::string& file, const std::string& more = "") {
    return input_in(run_gpusim(folder, "run --format json " + file + more).out);
  };
  const std::string board = "base: h200\n";
  const std::string scenario =
      "name: s\nhardware: board\nworkload: {kernels: [{kernel: k, duration: 3 us}]}\n";
  folder.write("here/board.yaml", board);
  folder.write("there/hardware/board.yaml", "# Moved.\n" + board);
  folder.write("changed/board.yaml", board + "memory: {capacity: 100 GiB}\n");
  const std::string here = input(folder.write("here/a.yaml", scenario));
  CHECK(here == input(folder.write("there/b.yaml", scenario + "# A remark.\n")));
  CHECK(here != input(folder.write("changed/a.yaml", scenario)));
  CHECK(here != input(folder / "here/a.yaml", " --set workload.kernels[0].duration='4 us'"));
  CHECK(here == input(folder / "here/a.yaml", " --set workload.kernels[0].duration='3 us'"));
  CHECK(here != input(folder / "here/a.yaml", " --steps 2"));
}

TEST_CASE("The digest of each of several scenarios is its own") {
  const Folder folder;
  const std::string a = folder.write("a.yaml", kernels);
  const std::string b = folder.write("b.yaml", network);
  const auto both = nlohmann::json::parse(run_gpusim(folder, "run --format json " + a + " " + b).out);
  CHECK(both["scenarios"][0]["input"] == input_in(run_gpusim(folder, "run --format json " + a).out));
  CHECK(both["scenarios"][1]["input"] == input_in(run_gpusim(folder, "run --format json " + b).out));
}

TEST_CASE("A sweep's files say the version and the digest, a moved scenario's too") {
  const Folder folder;
  const std::string here = folder.write("here/small.yaml", kernels);
  const std::string there = folder.write("there/small.yaml", kernels);
  const std::string input = input_in(run_gpusim(folder, "run --format json " + here).out);
  const std::string vary = " --vary workload.kernels[0].repeat=1,2,3 --out ";
  REQUIRE(run_gpusim(folder, "sweep " + here + vary + (folder / "rows.csv")).exit_code == 0);
  CHECK_THAT(content(folder / "rows.csv.sweep"),
             ContainsSubstring("gpusim " + version() + "\ninput: " + input + "\n"));
  CHECK(run_gpusim(folder, "sweep " + there + vary + (folder / "rows.csv") + " --resume").exit_code == 0);
  folder.write("here/small.yaml", std::string(kernels) + "steps: 2\n");
  CHECK(run_gpusim(folder, "sweep " + here + vary + (folder / "rows.csv") + " --resume").exit_code == 2);
}
