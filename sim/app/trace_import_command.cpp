// SPDX-License-Identifier: Apache-2.0
#include "sim/app/trace_import_command.hpp"

#include <fmt/format.h>

#include "models/units/text.hpp"
#include "sim/app/limit_options.hpp"
#include "sim/app/output_file.hpp"
#include "sim/app/trace_what_if_command.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"
#include "sim/trace_use/import.hpp"

namespace gpusim {

double host_time_factor(const std::string& text) {
  if (text == "traced") return 1;
  if (text == "auto") return 0;
  const Parsed<double> factor = parse_quantity<double>(text);
  if (factor && factor.value() >= 0.001 && factor.value() <= 1000) return factor.value();
  throw ConfigError(Diagnostic{.where = whole("--host-time"),
                               .path = "",
                               .what = fmt::format("'{}' is no factor between 0.001 and 1000", text),
                               .hint = "write 'auto', 'traced' or a factor such as 0.6"});
}

ExitCode run_trace_import(const ImportArguments& arguments, const Surroundings& surroundings,
                          const config::SearchPath& search) {
  ImportOptions options;
  options.host_factor = host_time_factor(arguments.host_time);
  options.fold = !arguments.no_fold;
  const Trace trace = read_trace(arguments.trace, trace_limits(surroundings.limits));
  options.gpu = gpu_of_trace(trace, arguments.hardware, search);
  const ImportedScenario scenario = import_trace(trace, options);
  if (arguments.out.empty()) {
    surroundings.out(scenario.yaml);
    return ExitCode::Done;
  }
  write_output(arguments.out, scenario.yaml);
  surroundings.err(fmt::format("{} instructions in {} items written to {}\n", scenario.instructions,
                               scenario.items, arguments.out));
  return ExitCode::Done;
}

}  // namespace gpusim
