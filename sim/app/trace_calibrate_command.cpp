// SPDX-License-Identifier: Apache-2.0
#include "sim/app/trace_calibrate_command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/app/limit_options.hpp"
#include "sim/app/output_file.hpp"
#include "sim/app/trace_what_if_command.hpp"
#include "sim/config/calibration_reader.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"
#include "sim/report/format.hpp"
#include "sim/trace_use/calibrate_trace.hpp"

namespace gpusim {
namespace {

std::string host_table(const HostFit& fit) {
  const auto us = [](Picoseconds t) { return fmt::format("{:.2f}", static_cast<double>(t.count()) * 1e-6); };
  std::string text = "host op                     mode        times      us    p10    p90  base file\n";
  constexpr std::size_t shown = 25;
  for (std::size_t i = 0; i < std::min(shown, fit.samples.size()); ++i) {
    const HostOpSample& s = fit.samples[i];
    const char* mode = s.mode == HostOpMode::NoGrad ? "no_grad"
                       : s.mode == HostOpMode::Grad ? "grad"
                                                    : "backward";
    text += report::left(report::shorten(s.key, 27), 28) + report::left(mode, 9) +
            report::right(std::to_string(s.count), 8) + report::right(us(s.mean), 8) +
            report::right(us(s.p10), 7) + report::right(us(s.p90), 7) +
            report::right(s.base ? us(*s.base) : "-", 11) + "\n";
  }
  if (fit.samples.size() > shown) text += fmt::format("  and {} others\n", fit.samples.size() - shown);
  text += fmt::format(
      "speed {:.3g}: with it the base file's costs are {:.0f} % off those of the traces in the mean\n",
      fit.host.speed, 100 * fit.residual);
  return text;
}

}  // namespace

ExitCode run_trace_calibrate(const TraceCalibrateArguments& arguments, const Surroundings& surroundings,
                             const config::SearchPath& search) {
  const HostSpec base = host_by_name(arguments.host, "--host", search);
  std::vector<Trace> traces;
  std::vector<std::optional<GpuSpec>> gpus;
  for (const std::string& file : arguments.traces) {
    traces.push_back(read_trace(file, trace_limits(surroundings.limits)));
    gpus.push_back(gpu_of_trace(traces.back(), arguments.hardware, search));
  }
  const HostFit host = fit_host(traces, gpus, base);
  for (std::size_t i = 0; i < traces.size(); ++i)
    surroundings.out(fmt::format("{}: host times times {:.3f} without the profiler\n",
                                 report::printable(arguments.traces[i]), host.factors[i]));
  surroundings.out(host.samples.empty()
                       ? std::string("no ops of the framework: nothing to say about the host\n")
                       : host_table(host));

  const calibrate::KernelTable table = kernels_of(traces);
  const bool priced = gpus.front() && gpus.front()->calibration && !table.cases.empty();
  std::string hardware;
  if (priced) {
    const GpuSpec& gpu = *gpus.front();
    surroundings.out(fmt::format("\n{}: kernels whose work is known, by its file as it is\n", gpu.name));
    const std::vector<calibrate::FamilyResult> as_it_is = calibrate::evaluate(gpu, table);
    surroundings.out(calibrate::to_text(as_it_is, false, 5));
    calibrate::FitOptions options;
    options.cross_validate = false;
    // With fewer kernels than parameters a fit says nothing but the kernels themselves.
    for (const calibrate::FamilyResult& family : as_it_is) {
      if (static_cast<int>(family.cases.size()) > family.parameters) {
        options.families.push_back(family.family);
      } else {
        surroundings.out(fmt::format("{}: {} kernels are too few for {} parameters, which stay as they are\n",
                                     family.family, family.cases.size(), family.parameters));
      }
    }
    calibrate::FitResult result;
    result.gpu = gpu;
    if (!options.families.empty()) {
      result = calibrate::fit(gpu, table, options);
      surroundings.out("fitted to the traces\n");
      surroundings.out(calibrate::to_text(result.families, false, 5));
    }
    hardware =
        fmt::format(
            "# {} with kernel parameters fitted to traces\nbase: {}\nname: {}, calibrated from traces\n",
            gpu.name, gpu.key, gpu.name) +
        config::write_calibration(*result.gpu.calibration, [&](const CalibrationParameter& parameter) {
          const bool changed = parameter.value(*result.gpu.calibration) != parameter.value(*gpu.calibration);
          return changed ? std::string("fitted to traces") : "as " + gpu.key;
        });
  } else {
    surroundings.out(
        "\nno kernel whose work is known on a GPU that is calibrated: nothing to say about the device\n");
  }
  if (!arguments.host_out.empty()) {
    write_output(arguments.host_out, host_yaml(host, base, arguments.traces));
    surroundings.err(fmt::format("host written to {}\n", arguments.host_out));
  }
  if (!arguments.hardware_out.empty()) {
    if (hardware.empty())
      throw ConfigError(
          Diagnostic{.where = whole("--hardware-out"),
                     .path = "",
                     .what = "the traces say nothing about the device",
                     .hint = "name its GPU with --hardware, or record shapes with record_shapes=True"});
    write_output(arguments.hardware_out, hardware);
    surroundings.err(fmt::format("hardware written to {}\n", arguments.hardware_out));
  }
  return ExitCode::Done;
}

}  // namespace gpusim
