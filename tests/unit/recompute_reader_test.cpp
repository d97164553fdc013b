// SPDX-License-Identifier: Apache-2.0
// What variants say about recomputing, and the answer to what they say wrong.
#include <string>

#include "sim/config/load.hpp"
#include "sim/scenario/recompute_reader.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim {
namespace {

using test::message_of;

CompileOptions read(const std::string& text) {
  CompileOptions options;
  read_recompute(config::load_text(text, "r.yaml"), options);
  return options;
}
RecomputeOptions recompute(const std::string& text) {
  const CompileOptions options = read(text);
  REQUIRE(options.recompute);
  return *options.recompute;
}
std::string answer(const std::string& text) {
  return message_of([&] { read(text); });
}

TEST_CASE("Every key about recomputing reaches its field and no other") {
  const auto changed = [](const auto& change) {
    RecomputeOptions options;
    change(options);
    return options;
  };
  CHECK(recompute("{}") == RecomputeOptions{});
  CHECK(recompute("{policy: min_cut}") == RecomputeOptions{});
  CHECK(recompute("{policy: store_all}") == changed([](auto& o) { o.policy = RecomputePolicy::StoreAll; }));
  CHECK(recompute("{policy: memory_budget}") ==
        changed([](auto& o) { o.policy = RecomputePolicy::MemoryBudget; }));
  CHECK(recompute("{memory_budget: 0.5, solver: exact}") == changed([](auto& o) {
          o.policy = RecomputePolicy::MemoryBudget;
          o.memory_budget = 0.5;
          o.solver = KnapsackSolver::Exact;
        }));
  CHECK(recompute("{save: ['block[0].*', head]}") == changed([](auto& o) {
          o.save = {"block[0].*", "head"};
        }));
  CHECK(recompute("{recompute: [h]}") == changed([](auto& o) { o.recompute = {"h"}; }));
  CHECK_FALSE(read("{costs: flops}").recompute_by_time);
  CHECK(read("{costs: time}").recompute_by_time);
  CHECK(recompute("{costs: time}") == RecomputeOptions{});
}

TEST_CASE("A policy alone is a word") {
  for (const RecomputePolicy policy :
       {RecomputePolicy::StoreAll, RecomputePolicy::RecomputeAll, RecomputePolicy::Blocks,
        RecomputePolicy::Selective, RecomputePolicy::MinCut, RecomputePolicy::MemoryBudget}) {
    RecomputeOptions expected;
    expected.policy = policy;
    CHECK(recompute(std::string(name(policy))) == expected);
  }
}

TEST_CASE("Mistakes about recomputing are located and explained, all at once", "[bad_input]") {
  CHECK(answer("min_cuts") == "r.yaml:1:1: error: unknown name 'min_cuts'\n  hint: did you mean 'min_cut'?");
  CHECK(answer("{policy: none}")
            .find("known names: store_all, recompute_all, blocks, selective, min_cut, "
                  "memory_budget") != std::string::npos);
  CHECK(answer("{memory_budget: 1.5}") == "r.yaml:1:17: error: memory_budget: must be at most 1, not 1.5");
  CHECK(answer("{memory_budget: -1}") == "r.yaml:1:17: error: memory_budget: must be at least 0, not -1");
  CHECK(answer("{memory_budget: 0.5, policy: blocks}") ==
        "r.yaml:1:30: error: policy: 'blocks' has no budget\n"
        "  hint: write 'policy: memory_budget', or 'memory_budget: null'");
  CHECK(answer("{solver: dp}") ==
        "r.yaml:1:10: error: solver: is of a memory budget, and the policy is min_cut\n"
        "  hint: write 'memory_budget: 0.5' beside it, or leave it away");
  CHECK(answer("{memory_budget: 0, solver: ilp}").find("unknown name 'ilp'") != std::string::npos);
  CHECK(answer("{keep: [a]}") ==
        "r.yaml:1:2: error: keep: unknown key\n"
        "  hint: known keys: policy, memory_budget, solver, save, recompute, costs");
  const std::string all = answer("{costs: joules, memory_budget: 2}");
  CHECK(all.find("costs: unknown name 'joules'") != std::string::npos);
  CHECK(all.find("memory_budget: must be at most 1") != std::string::npos);
}

TEST_CASE("Recomputing is refused where nothing is trained or compiled", "[bad_input]") {
  const auto of = [](const std::string& workload, const std::string& lines) {
    return message_of([&] {
      read_scenario_text(
          "hardware: h200\nhost: xeon-h200-cloud\nworkload: {network: gpt2, parameters: {layers: "
          "1}, batch: 1, sequence: 16" +
              workload + "}\n" + lines,
          "x.yaml", {});
    });
  };
  CHECK(of("", "backend: inductor\nrecompute: min_cut\n") ==
        "x.yaml:5:12: error: recompute: is for training, and the step is inference\n"
        "  hint: write 'workload: {step: training}', or 'recompute: null' here");
  CHECK(of(", step: training", "recompute: min_cut\n") ==
        "x.yaml:4:1: error: recompute: is for a compiler, and nothing is compiled here\n"
        "  hint: write 'backend: inductor' beside it (gpusim list backends)");
  CHECK(of(", step: training", "backend: inductor\nrecompute: {memory_budget: 0.5}\n") == "no error");
}

}  // namespace
}  // namespace gpusim
