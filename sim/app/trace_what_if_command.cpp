// SPDX-License-Identifier: Apache-2.0
#include "sim/app/trace_what_if_command.hpp"

#include "sim/app/limit_options.hpp"
#include "sim/app/trace_import_command.hpp"
#include "sim/config/error.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/trace_use/what_if_report.hpp"

namespace gpusim {

GpuSpec gpu_by_name(const std::string& name, const std::string& where, const config::SearchPath& search) {
  const auto file = config::find_config("hardware", name, Location{where, 0, 0}, search);
  return config::read_hardware(config::load_config(file, search), search);
}

HostSpec host_by_name(const std::string& name, const std::string& where, const config::SearchPath& search) {
  const auto file = config::find_config("hosts", name, Location{where, 0, 0}, search);
  return config::read_host(config::load_config(file, search), search);
}

std::optional<GpuSpec> gpu_of_trace(const Trace& trace, const std::string& name,
                                    const config::SearchPath& search) {
  if (!name.empty()) return gpu_by_name(name, "--hardware", search);
  if (trace.devices.empty()) return std::nullopt;
  for (const TraceDevice& device : trace.device_properties)
    if (device.id == trace.devices.front() && !device.name.empty())
      return config::hardware_of_device(device.name, search);
  return std::nullopt;
}

ExitCode run_trace_what_if(const WhatIfArguments& arguments, const Surroundings& surroundings,
                           const config::SearchPath& search) {
  Errors errors;
  std::vector<TraceChange> changes;
  for (const std::string& text : arguments.changes)
    errors.collect([&] { changes.push_back(parse_change(text)); });
  WhatIfOptions options;
  errors.collect([&] {
    if (const double factor = host_time_factor(arguments.host_time); factor > 0) options.host_factor = factor;
  });
  errors.collect([&] { options.host = host_by_name(arguments.host, "--host", search); });
  errors.throw_if_any();
  const Trace trace = read_trace(arguments.trace, trace_limits(surroundings.limits));
  options.gpu = gpu_of_trace(trace, arguments.hardware, search);
  options.find_gpu = [&](const std::string& name, const std::string& change) {
    return gpu_by_name(name, "--change " + change, search);
  };
  const WhatIf result = what_if(trace, changes, options);
  surroundings.out(arguments.format == "json" ? what_if_json(result) : what_if_text(result));
  return ExitCode::Done;
}

}  // namespace gpusim
