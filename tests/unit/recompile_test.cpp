// SPDX-License-Identifier: Apache-2.0
// Which calls compile again, against sequences of shapes run through PyTorch 2.11 on an H200.
#include "models/compiler/recompile.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using test::ContainsSubstring;

std::vector<ShapeCall> calls_of(const std::vector<CallSizes>& sizes) {
  std::vector<ShapeCall> calls;
  for (const CallSizes& s : sizes) calls.push_back({.sizes = s});
  return calls;
}

/// One letter a call: C compiles, h hits, e runs eagerly.
std::string outcomes(const std::vector<CallRecord>& records) {
  std::string text;
  for (const CallRecord& record : records)
    text += record.outcome == CallOutcome::Compiles ? 'C' : record.outcome == CallOutcome::Hits ? 'h' : 'e';
  return text;
}

std::string outcomes(const std::vector<CallSizes>& sizes, const RecompileRules& rules = {}) {
  return outcomes(simulate_calls(calls_of(sizes), rules));
}

/// One letter a call: w warms up, r records, p replays, - runs without a CUDA graph.
std::string graphs(const std::vector<CallRecord>& records) {
  std::string text;
  for (const CallRecord& record : records)
    text += record.graph == GraphOutcome::WarmUp   ? 'w'
            : record.graph == GraphOutcome::Record ? 'r'
            : record.graph == GraphOutcome::Replay ? 'p'
                                                   : '-';
  return text;
}

nlohmann::json measured(const std::string& file) {
  std::ifstream in(std::string(GPUSIM_SOURCE_DIR) + "/validation/h200/" + file);
  return nlohmann::json::parse(in);
}

RecompileRules rules_of(const nlohmann::json& row) {
  RecompileRules rules;
  rules.limit = row["limit"];
  const std::string name = row["sequence"];
  if (row["marked"]) rules.marked = {0};
  if (name == "llama/mark_dynamic_both") rules.marked = {0, 1};
  if (name == "shape_branch_automatic") rules.branches = {{.dimension = 0, .above = 10}};
  const nlohmann::json& options = row["options"];
  if (options.contains("dynamic"))
    rules.dynamic = options["dynamic"] ? DynamicShapes::Always : DynamicShapes::Never;
  if (options.contains("mode")) rules.cuda_graphs.emplace();
  return rules;
}

TEST_CASE("Every measured sequence of shapes compiles the calls that PyTorch compiles",
          "[compiler][recompile]") {
  std::size_t sequences = 0;
  for (const std::string file : {"compiled_shapes.json", "compiled_entries.json"})
    for (const nlohmann::json& row : measured(file)) {
      const std::string name = row["sequence"];
      // Python numbers are not sizes.
      if (name.rfind("scalar/", 0) == 0) continue;
      ++sequences;
      CAPTURE(name);
      std::vector<ShapeCall> calls;
      for (const nlohmann::json& call : row["calls"]) calls.push_back({.sizes = call["shape"]});
      const std::vector<CallRecord> records = simulate_calls(calls, rules_of(row));
      REQUIRE(records.size() == calls.size());
      for (std::size_t i = 0; i < records.size(); ++i) {
        CAPTURE(i);
        const nlohmann::json& call = row["calls"][i];
        CHECK((records[i].outcome == CallOutcome::Compiles) == (call["compiled"] == 1));
        if (!call.contains("ran")) continue;
        // Which entry ran; none where it ran eagerly.
        CHECK((records[i].outcome == CallOutcome::Eager) == call["ran"].empty());
        if (!call["ran"].empty()) CHECK(records[i].entry == call["ran"][0]);
      }
    }
  CHECK(sequences == 17 + 12);
}

TEST_CASE("The four sequences of an earlier machine come out too", "[compiler][recompile]") {
  // shared/measured/h200/shapes.json
  const std::vector<CallSizes> mixed{{64}, {64}, {128}, {128}, {96}, {200}, {64}, {1}, {1}, {2}};
  CHECK(outcomes(mixed) == "ChChhhhChh");
  RecompileRules always;
  always.dynamic = DynamicShapes::Always;
  CHECK(outcomes(mixed, always) == "ChhhhhhChh");
  RecompileRules never;
  never.dynamic = DynamicShapes::Never;
  CHECK(outcomes({{32},
                  {64},
                  {96},
                  {128},
                  {160},
                  {192},
                  {224},
                  {256},
                  {288},
                  {320},
                  {352},
                  {32},
                  {64},
                  {96},
                  {640},
                  {640}},
                 never) == "CCCCCCCCeeehhhee");
  RecompileRules overhead;
  overhead.cuda_graphs.emplace();
  const std::vector<CallRecord> records = simulate_calls(
      calls_of({{64}, {64}, {64}, {64}, {128}, {128}, {128}, {128}, {96}, {96}, {96}, {96}, {64}, {64}}),
      overhead);
  CHECK(outcomes(records) == "ChhhChhhhhhhhh");
  // 18.2 ms where it records first, 3.6 to 4.9 ms where it warms up or records without compiling, and below
  // 0.4 ms where it replays. The last two are 64 again, now by the entry that takes any size.
  CHECK(graphs(records) == "wrppwrppwrppwr");
}

TEST_CASE("With CUDA graphs the first two calls of a shape take milliseconds, the others do not",
          "[compiler][recompile]") {
  std::size_t replays = 0;
  for (const nlohmann::json& row : measured("compiled_shapes.json")) {
    const RecompileRules rules = rules_of(row);
    if (!rules.cuda_graphs) continue;
    std::vector<ShapeCall> calls;
    for (const nlohmann::json& call : row["calls"]) calls.push_back({.sizes = call["shape"]});
    const std::vector<CallRecord> records = simulate_calls(calls, rules);
    for (std::size_t i = 0; i < records.size(); ++i) {
      const double ms = row["calls"][i]["ms"];
      CAPTURE(row["sequence"], i, ms);
      if (records[i].graph == GraphOutcome::Replay) {
        ++replays;
        CHECK(ms < 1);
      } else {
        CHECK(ms > 3);
      }
    }
  }
  CHECK(replays == 12);
}

TEST_CASE("The entry used last is tried first", "[compiler][recompile]") {
  RecompileRules never;
  never.dynamic = DynamicShapes::Never;
  const std::vector<CallRecord> records =
      simulate_calls(calls_of({{1}, {2}, {3}, {3}, {1}, {1}, {2}, {4}}), never);
  std::vector<std::int64_t> tried;
  for (const CallRecord& record : records) tried.push_back(record.entries_tried);
  // {3} is in front once compiled; {1} is found last, then first; {2} lies behind {1} and {3}.
  CHECK(tried == std::vector<std::int64_t>{0, 1, 2, 1, 3, 1, 3, 3});
}

TEST_CASE("The limit stops compiling one call after its last compilation", "[compiler][recompile]") {
  RecompileRules never;
  never.dynamic = DynamicShapes::Never;
  never.limit = 2;
  CHECK(outcomes({{5}, {6}, {7}, {6}, {7}}, never) == "CCehe");
  never.limit = 3;
  CHECK(outcomes({{5}, {6}, {7}, {6}, {7}}, never) == "CCChh");
  // Automatic shapes do not reach it by sizes alone.
  RecompileRules automatic;
  automatic.limit = 2;
  CHECK(outcomes({{5}, {6}, {7}, {8}, {9}, {1}, {1}}, automatic) == "CChhhee");
}

TEST_CASE("A number of sizes above the limit is warned of once, and each is recorded",
          "[compiler][recompile]") {
  RecompileRules rules;
  rules.dynamic = DynamicShapes::Always;
  rules.cuda_graphs.emplace().sizes_warned = 3;
  std::vector<CallSizes> sizes;
  for (std::int64_t n = 2; n < 8; ++n) sizes.insert(sizes.end(), 3, {n});
  const std::vector<CallRecord> records = simulate_calls(calls_of(sizes), rules);
  CHECK(graphs(records) == "wrpwrpwrpwrpwrpwrp");
  for (std::size_t i = 0; i < records.size(); ++i) CHECK(records[i].warns == (i == 9));
  rules.cuda_graphs->skip_dynamic = true;
  CHECK(graphs(simulate_calls(calls_of(sizes), rules)) == std::string(18, '-'));
}

TEST_CASE("Parameters that move are recorded again until the limit, then run without a CUDA graph",
          "[compiler][recompile]") {
  RecompileRules rules;
  rules.cuda_graphs.emplace().rerecords_limit = 2;
  std::vector<ShapeCall> calls;
  for (const std::int64_t place : {0, 0, 0, 1, 1, 0, 2, 3, 0})
    calls.push_back({.sizes = {8}, .addresses = place});
  CHECK(graphs(simulate_calls(calls, rules)) == "wrprppr--");
}

TEST_CASE("Without CUDA graphs nothing is recorded", "[compiler][recompile]") {
  CHECK(graphs(simulate_calls(calls_of({{8}, {8}, {8}}), {})) == "---");
}

TEST_CASE("An exported program takes the sizes that it was exported for, and no others",
          "[compiler][recompile]") {
  const ExportedShapes exported{.traced = {8, 128}, .dynamic = {{.dimension = 0, .least = 1, .most = 64}}};
  CHECK_NOTHROW(check_export(exported));
  CHECK_NOTHROW(check_exported_call(exported, {1, 128}));
  CHECK_NOTHROW(check_exported_call(exported, {64, 128}));
  CHECK_THROWS_WITH(check_exported_call(exported, {65, 128}),
                    ContainsSubstring("size 65 of dimension 0 is outside 1 to 64"));
  CHECK_THROWS_AS(check_exported_call(exported, {0, 128}), CompileError);
  CHECK_THROWS_AS(check_exported_call(exported, {8, 129}), CompileError);
  for (const std::int64_t traced : {0, 1, 65})
    CHECK_THROWS_AS(check_export({.traced = {traced, 128}, .dynamic = exported.dynamic}), CompileError);
}

}  // namespace
}  // namespace gpusim
