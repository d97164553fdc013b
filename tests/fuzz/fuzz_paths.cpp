// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "sim/config/load.hpp"
#include "sim/sweep/points.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/runs.hpp"
#include "tests/fuzz/targets.hpp"

namespace gpusim::fuzz {
namespace {

constexpr const char* base =
    "hardware: h200\nhost: xeon-h200-cloud\nworkload:\n  kernels:\n    - {kernel: a, duration: 5 us, repeat: "
    "3}\n    - {kernel: b, duration: [1 us, 2 us], bytes: 1 MB, stream: side}\n    - {copy: device_to_host, "
    "bytes: 4 KB}\n    - {synchronize: device}\nvariants:\n  a: {}\n  b: {cuda_graph: full}\nexpect:\n  - "
    "{path: a.kernels, min: 1}\n";

}  // namespace

void paths(std::string_view text) {
  answered([&] {
    ScenarioOptions options = scenario_options();
    std::vector<sweep::Axis> axes;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      constexpr std::string_view vary = "vary ";
      if (line.starts_with(vary))
        axes.push_back(sweep::parse_axis(line.substr(vary.size()), small_limits().axis_values_max));
      else if (!line.empty())
        options.sets.emplace_back(line);
    }
    const sweep::Points points(std::move(axes), {.combine = sweep::Combine::Random, .count = 2, .seed = 1},
                               small_limits().points_max);
    std::vector<std::uint32_t> at(points.axes().size());
    const std::vector<std::string> sets = options.sets;
    for (std::int64_t point = 0; point < points.count(); ++point) {
      points.at(point, at);
      options.sets = sets;
      for (std::size_t axis = 0; axis < at.size(); ++axis)
        options.sets.push_back(points.axes()[axis].path + '=' + points.axes()[axis].values[at[axis]]);
      answered([&] { run_and_report(read_scenario_text(base, input_name(), options)); });
    }
  });
}

}  // namespace gpusim::fuzz
