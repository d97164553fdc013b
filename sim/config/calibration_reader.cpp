// SPDX-License-Identifier: Apache-2.0
#include "sim/config/calibration_reader.hpp"

#include <array>
#include <charconv>
#include <map>

namespace gpusim::config {
namespace {

/// Six digits, as short as they go; the same in every locale.
std::string digits(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 6);
  return std::string(buffer.data(), end);
}

void read_parameter(Fields& fields, const CalibrationParameter& parameter, double& into) {
  if (parameter.unit == CalibrationUnit::Time) {
    Picoseconds time{0};
    fields.required(parameter.key, time, positive);
    into = seconds(time);
  } else {
    fields.required(parameter.key, into, positive);
  }
}

}  // namespace

KernelCalibration read_calibration(const Node& calibration) {
  KernelCalibration result;
  Fields sections(calibration);
  sections.optional("transferred_from", result.transferred_from);
  const auto parameters = calibration_parameters();
  for (std::size_t first = 0; first < parameters.size();) {
    std::size_t last = first;
    while (last < parameters.size() && parameters[last].section == parameters[first].section) ++last;
    sections.required_with(parameters[first].section, [&](const Node& section) {
      Fields fields(section);
      for (std::size_t i = first; i < last; ++i)
        read_parameter(fields, parameters[i], parameters[i].get(result));
      fields.done();
    });
    first = last;
  }
  sections.done();
  if (result.memory.evicted <= result.memory.resident)
    calibration.at("memory").at("evicted").fail("must be more than 'resident'");
  return result;
}

std::string calibration_value(const CalibrationParameter& parameter, const KernelCalibration& calibration) {
  const double value = parameter.value(calibration);
  if (parameter.unit != CalibrationUnit::Time) return digits(value);
  return value >= 1e-7 ? digits(value * 1e6) + " us" : digits(value * 1e9) + " ns";
}

}  // namespace gpusim::config
