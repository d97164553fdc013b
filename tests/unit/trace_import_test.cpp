// SPDX-License-Identifier: Apache-2.0
// Traces as scenario files: what is written is read back and runs as the replay does.
#include "sim/trace_use/import.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/config/error.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/build.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/trace_use/fold.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/written_trace.hpp"

using namespace gpusim;
namespace fs = std::filesystem;
using gpusim::test::ContainsSubstring;
using gpusim::test::message_of;
using gpusim::test::TraceText;
using gpusim::test::us;

namespace {

std::vector<FoldedItem> letters(const std::string& text) {
  std::vector<FoldedItem> items;
  for (std::size_t i = 0; i < text.size(); ++i)
    items.push_back({.text = std::string(1, text[i]),
                     .times = {us(static_cast<double>(i))},
                     .comment = "",
                     .repeat = 1,
                     .body = {}});
  return items;
}

std::string shown(const std::vector<FoldedItem>& items) {
  std::string text;
  for (const FoldedItem& item : items)
    text += item.body.empty() ? item.text : fmt::format("{}({})", item.repeat, shown(item.body));
  return text;
}

Picoseconds total(const std::vector<FoldedItem>& items) {
  Picoseconds sum{0};
  for (const FoldedItem& item : items) {
    for (const Picoseconds time : item.times) sum += time;
    if (!item.body.empty()) sum += item.repeat * total(item.body);
  }
  return sum;
}

Scenario read_back(const std::string& yaml) {
  ScenarioOptions options;
  return read_scenario_tree(config::load_text(yaml, "imported.yaml"), "imported.yaml", options);
}

struct Imported {
  ImportedScenario scenario;
  Picoseconds traced{0};     ///< Wall of the GPU ops in the trace.
  Picoseconds simulated{0};  ///< The same of the imported scenario.
};

Imported import_and_run(const Trace& trace, bool fold) {
  config::SearchPath search;
  ImportOptions options;
  options.fold = fold;
  for (const TraceDevice& device : trace.device_properties)
    if (!trace.devices.empty() && device.id == trace.devices.front() && !device.name.empty())
      options.gpu = config::hardware_of_device(device.name, search);
  Imported result;
  result.scenario = import_trace(trace, options);
  const Scenario scenario = read_back(result.scenario.yaml);
  const BuiltProgram built = build_program(scenario.variants.front());
  const engine::Run run = engine::run(built.program, built.machine, 1);
  result.simulated = run.last_op_end - run.first_op_start;
  Picoseconds first = Picoseconds::max();
  Picoseconds last{0};
  for (const TraceOp& op : trace.ops) {
    first = std::min(first, op.start);
    last = std::max(last, op.end);
  }
  result.traced = trace.ops.empty() ? Picoseconds(0) : last - first;
  return result;
}

std::vector<std::string> trace_files() {
  std::vector<std::string> files;
  for (const std::string& folder : {std::string(GPUSIM_SHARED_DIR) + "/traces/public",
                                    std::string(GPUSIM_SHARED_DIR) + "/measured/h200/traces",
                                    std::string(GPUSIM_SHARED_DIR) + "/measured/h200x2/traces",
                                    std::string(GPUSIM_SOURCE_DIR) + "/tests/data/traces"})
    if (fs::exists(folder))
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".gz") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("Equal blocks become loops, blocks of blocks loops of loops") {
  CHECK(shown(fold(letters("abcabcabc"))) == "3(abc)");
  CHECK(shown(fold(letters("xaaabaaaby"))) == "x2(3(a)b)y");
  CHECK(shown(fold(letters("abcd"))) == "abcd");
  CHECK(shown(fold(letters("aa"))) == "2(a)");
  CHECK(shown(fold({})).empty());
}

TEST_CASE("A loop's times are the means of what it repeats, so that their sum stays") {
  const std::vector<FoldedItem> items = letters("xaaabaaaby");
  CHECK(total(fold(items)) == total(items));
  const std::vector<FoldedItem> folded = fold(letters("abab"));
  CHECK(folded[0].body[0].times[0] == us(1));
  CHECK(folded[0].body[1].times[0] == us(2));
}

TEST_CASE("Items that are distinct for another reason than their text are not folded") {
  std::vector<FoldedItem> items = letters("aaa");
  items[0].distinct = 1;
  CHECK(shown(fold(items)) == "a2(a)");
}

TEST_CASE(
    "An imported trace says kernels, gaps, host work, calls and synchronisations, and runs as the trace "
    "did") {
  const Trace trace = TraceText()
                          .launch(0, 4, 1)
                          .kernel(R"(first \"quoted\" {})", 6, 10, 1)
                          .launch(5, 4, 2)
                          .kernel("second", 17, 5, 2)
                          .call("cudaDeviceSynchronize", 12, 13)
                          .launch(30, 4, 3)
                          .kernel("third", 36, 2, 3)
                          .read();
  const Imported imported = import_and_run(trace, true);
  CHECK_THAT(imported.scenario.yaml,
             ContainsSubstring("kernel: \"first \\\"quoted\\\" {}\", duration: 10 us"));
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("host: 1 us, launch: 4 us"));
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("synchronize: device"));
  CHECK(imported.traced == us(32));
  // As replayed: the gap of the second is not known (0 instead of 1 us), so the host wakes at 24, calls at
  // 29, and the third arrives 1.65 us (the default) after that call: it ends at 36.65.
  CHECK(imported.simulated == us(36.65 - 6));
}

TEST_CASE("Imported copies keep direction and blocking, streams their names, waits their events") {
  const Trace trace = TraceText()
                          .launch(-10, 4, 9)
                          .kernel("c", -4, 1, 9, 20)
                          .launch(0, 4, 1)
                          .kernel("a", 6, 30, 1, 7)
                          .launch(5, 4, 2)
                          .kernel("b", 37, 5, 2, 20)
                          .call("cudaMemcpyAsync", 10, 40, 3)
                          .copy("Memcpy DtoH (Device -> Pageable)", 44, 3, 3, 20)
                          .read();
  const Imported imported = import_and_run(trace, true);
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("copy: d2h"));
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("blocking: true"));
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("stream: 20"));
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("after: [\"end of op 2\"]"));
}

TEST_CASE("Three equal steps are a loop over steps, and one CUDA graph a step can be asked for") {
  TraceText text;
  for (int step = 0; step < 3; ++step) {
    const double at = 100.0 * step;
    text.step(step, at, 90);
    for (int k = 0; k < 4; ++k)
      text.launch(at + 10 * k, 4, 10 * step + k + 1).kernel("k", at + 10 * k + 6, 3, 10 * step + k + 1);
    text.launch(at + 50, 4, 10 * step + 9).kernel("last", at + 56, 3, 10 * step + 9);
  }
  const Trace trace = text.read();
  const Imported imported = import_and_run(trace, true);
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("steps_in_lists: 3"));
  CHECK_THAT(imported.scenario.yaml, ContainsSubstring("- repeat: 3"));
  CHECK(imported.scenario.items < 12);  // Of 15 launches and 3 ends of steps.
  CHECK(imported.simulated == imported.traced);
  const Scenario scenario = read_back(imported.scenario.yaml);
  REQUIRE(scenario.variants.size() == 2);
  const BuiltProgram built = build_program(scenario.variants.back());
  CHECK(built.steps_per_program == 3);
  CHECK(built.step_starts.size() == 2);
}

TEST_CASE("A trace with neither GPU ops nor calls is nothing to import") {
  CHECK_THAT(message_of([] { import_trace(TraceText().cpu_op("aten::mm", 0, 1).read()); }),
             ContainsSubstring("nothing to import"));
}

TEST_CASE("Imported, folded or not, every trace takes the traced time within 1 %") {
  for (const std::string& file : trace_files()) {
    const Trace trace = read_trace(file);
    if (trace.ops.empty()) continue;
    for (const bool fold : {true, false}) {
      const Imported imported = import_and_run(trace, fold);
      INFO(file << (fold ? ", folded" : ", not folded"));
      CHECK(std::abs(static_cast<double>(imported.simulated.count()) /
                         static_cast<double>(imported.traced.count()) -
                     1) < 0.01);
    }
  }
}

TEST_CASE("Table of imported traces", "[.table]") {
  for (const std::string& file : trace_files()) {
    const Trace trace = read_trace(file);
    if (trace.ops.empty()) continue;
    const Imported folded = import_and_run(trace, true);
    const Imported whole = import_and_run(trace, false);
    const auto error = [](const Imported& i) {
      return 100 * (static_cast<double>(i.simulated.count()) / static_cast<double>(i.traced.count()) - 1);
    };
    std::cout << fmt::format("| {} | {} | {} | {} | {:+.3f} % | {:+.3f} % |\n",
                             fs::path(file).filename().string(), trace.ops.size(), folded.scenario.items,
                             whole.scenario.items, error(folded), error(whole));
  }
}
