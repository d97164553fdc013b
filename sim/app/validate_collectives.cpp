// SPDX-License-Identifier: Apache-2.0
#include "sim/app/validate_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "models/cost/collectives.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/interconnect_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/validate/collective_table.hpp"

namespace gpusim {
namespace {

/// The calls of the tables are synchronous: the framework waits for nothing, but makes no object to wait for
/// either.
constexpr const char* host_call_op = "collective_call";

LinkSpec link_named(const std::string& name, const validate::CollectiveCase& row,
                    const config::SearchPath& search) {
  const auto file = config::find_config("interconnects", name, row.where, search);
  LinkSpec link = config::read_link(config::load_config(file, search), search);
  return link;
}

validate::CollectivePrediction predicted(const validate::CollectiveCase& row, const HostSpec& host,
                                         const config::SearchPath& search) {
  Interconnect links;
  links.intra = link_named(row.intra, row, search);
  if (!row.inter.empty()) links.inter = link_named(row.inter, row, search);
  CollectiveCost cost;
  try {
    cost = collective_cost(row.collective, links);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(Diagnostic{row.where, "", error.what(), ""});
  }
  const double kernel = microseconds(cost.duration);
  const double host_call = microseconds(op_time(host, host_call_op, HostOpMode::NoGrad));
  validate::CollectivePrediction result;
  const auto set = [&](validate::CollectiveMeasure measure, double us) {
    result.us[static_cast<std::size_t>(measure)] = us;
  };
  set(validate::CollectiveMeasure::Kernel, kernel);
  set(validate::CollectiveMeasure::Graph, kernel + microseconds(cost.graph_gap_of_collectives));
  set(validate::CollectiveMeasure::Eager, std::max(host_call, kernel + microseconds(cost.eager_gap)));
  result.blocks = cost.blocks;
  return result;
}

}  // namespace

bool validate_collectives(const std::string& file, const std::string& format,
                          const Surroundings& surroundings) {
  config::SearchPath search;
  search.beside = std::filesystem::path(file).parent_path();
  search.extra = surroundings.config_folders;
  search.files = std::make_shared<config::FileStore>(surroundings.limits);
  const HostSpec host = config::read_host(config::load_text("xeon-h200-cloud", "host"), search);
  const validate::CollectiveTable table = validate::read_collectives(file);
  // Small eager collectives are bound by the host, and hosts differ.
  std::map<std::string, HostSpec> hosts;
  for (const auto& [machine, index] : table.calibrations) {
    const validate::CollectiveCase& row = table.cases[index];
    HostSpec& own = hosts.emplace(machine, host).first->second;
    own.speed *= microseconds(op_time(host, host_call_op, HostOpMode::NoGrad)) /
                 *row.us[static_cast<std::size_t>(validate::CollectiveMeasure::Eager)];
    if (format == "text")
      surroundings.out(
          fmt::format("host of machine {}: speed {:.3f}, set by {}\n", machine, own.speed, row.name()));
  }
  std::vector<validate::CollectivePrediction> predictions;
  for (const validate::CollectiveCase& row : table.cases) {
    const auto own = hosts.find(row.machine);
    predictions.push_back(predicted(row, own == hosts.end() ? host : own->second, search));
  }
  bool failed = false;
  const std::string report = validate::report_collectives(table, predictions, failed);
  surroundings.out(format == "csv" ? validate::collectives_csv(table, predictions) : report);
  return failed;
}

}  // namespace gpusim
