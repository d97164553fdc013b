// SPDX-License-Identifier: Apache-2.0
#include "models/hardware/gpu_spec.hpp"
#include "models/units/time_range.hpp"

#include <algorithm>
#include <cmath>

namespace gpusim {

namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  int bits;
};
constexpr std::array<DtypeRow, dtype_count> dtype_rows{{{Dtype::Fp64, "fp64", 64},
                                                        {Dtype::Fp32, "fp32", 32},
                                                        {Dtype::Tf32, "tf32", 32},
                                                        {Dtype::Bf16, "bf16", 16},
                                                        {Dtype::Fp16, "fp16", 16},
                                                        {Dtype::Fp8, "fp8", 8},
                                                        {Dtype::Fp4, "fp4", 4},
                                                        {Dtype::Int8, "int8", 8},
                                                        {Dtype::Int4, "int4", 4}}};

void append(std::string& list, std::string_view item) {
  if (!list.empty()) list += ", ";
  list += item;
}

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

std::string_view name(Dtype dtype) {
  return dtype_rows[static_cast<std::size_t>(dtype)].name;
}

int bits(Dtype dtype) {
  return dtype_rows[static_cast<std::size_t>(dtype)].bits;
}

std::optional<Dtype> find_dtype(std::string_view name) {
  for (const DtypeRow& row : dtype_rows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

std::string_view name(Vendor vendor) {
  return vendor == Vendor::Amd ? "amd" : "nvidia";
}

bool PeakTable::empty() const {
  return std::none_of(rates_.begin(), rates_.end(), [](const auto& rate) { return rate.has_value(); });
}

FlopsPerSecond peak(const GpuSpec& gpu, Dtype dtype) {
  if (const auto rate = gpu.peak.find(dtype)) return *rate;
  std::string known;
  for (const DtypeRow& row : dtype_rows)
    if (gpu.peak.find(row.dtype)) append(known, row.name);
  throw NoPeakError(gpu.key + " has no peak for " + std::string(name(dtype)) + "; known: " + known);
}

double ridge_point(const GpuSpec& gpu, Dtype dtype) {
  return peak(gpu, dtype).value() / gpu.memory.bandwidth.value();
}

BytesPerSecond bandwidth_top(const GpuSpec& gpu) {
  if (gpu.memory.bandwidth_top.value() > 0) return gpu.memory.bandwidth_top;
  return BytesPerSecond(gpu.memory.bandwidth.value() * (4.25 / 4.8));
}

namespace {

Picoseconds at_rate(Bytes bytes, BytesPerSecond rate) {
  return time_in_range(static_cast<double>(bytes.value()) / rate.value() * 1e12);
}

}  // namespace

Picoseconds host_to_device_time(const GpuSpec& gpu, Bytes bytes) {
  return gpu.copy.latency + at_rate(bytes, gpu.host_link.host_to_device);
}
Picoseconds device_to_host_time(const GpuSpec& gpu, Bytes bytes) {
  return gpu.copy.latency + at_rate(bytes, gpu.host_link.device_to_host);
}
Picoseconds device_to_device_time(const GpuSpec& gpu, Bytes bytes) {
  return gpu.copy.latency + at_rate(2 * bytes, gpu.copy.device_to_device);
}

std::size_t alias_match(const GpuSpec& gpu, std::string_view device_name) {
  std::size_t longest = 0;
  for (const std::string& alias : gpu.aliases)
    if (!alias.empty() && device_name.find(alias) != std::string_view::npos)
      longest = std::max(longest, alias.size());
  return longest;
}

std::vector<SpecProblem> problems(const GpuSpec& gpu) {
  std::vector<SpecProblem> found;
  const auto need_positive = [&](const char* path, double value) {
    if (!positive(value)) found.push_back({path, "must be positive"});
  };
  if (gpu.name.empty()) found.push_back({"name", "must not be empty"});
  if (gpu.sms < 1) found.push_back({"sms", "must be at least 1"});
  need_positive("clock", gpu.clock.value());
  need_positive("l2", static_cast<double>(gpu.l2.value()));
  need_positive("memory.capacity", static_cast<double>(gpu.memory.capacity.value()));
  need_positive("memory.bandwidth", gpu.memory.bandwidth.value());
  const double top = gpu.memory.bandwidth_top.value();
  if (!std::isfinite(top) || top < 0 || top > gpu.memory.bandwidth.value())
    found.push_back({"memory.bandwidth_top", "must not be negative or above the bandwidth"});
  const double per_sm = gpu.memory.bandwidth_per_sm.value();
  if (!std::isfinite(per_sm) || per_sm < 0)
    found.push_back({"memory.bandwidth_per_sm", "must not be negative"});
  if (gpu.sm) {
    if (gpu.sm->threads < 1) found.push_back({"sm.threads", "must be at least 1"});
    if (gpu.sm->registers < 1) found.push_back({"sm.registers", "must be at least 1"});
    if (gpu.sm->shared_memory < Bytes(1)) found.push_back({"sm.shared_memory", "must be positive"});
    if (gpu.sm->blocks < 1) found.push_back({"sm.blocks", "must be at least 1"});
  }
  if (gpu.peak.empty()) found.push_back({"peak", "must give at least one dtype"});
  for (const DtypeRow& row : dtype_rows)
    if (const auto rate = gpu.peak.find(row.dtype); rate && !positive(rate->value()))
      found.push_back({"peak." + std::string(row.name), "must be positive"});
  need_positive("host_link.h2d", gpu.host_link.host_to_device.value());
  need_positive("host_link.d2h", gpu.host_link.device_to_host.value());
  need_positive("copy.d2d", gpu.copy.device_to_device.value());
  if (gpu.copy.latency < Picoseconds{0}) found.push_back({"copy.latency", "must not be negative"});
  for (const SpecProblem& problem : problems(gpu.launch))
    found.push_back({"launch." + problem.path, problem.what});
  if (gpu.power) {
    if (!(gpu.power->limit > gpu.power->idle) || gpu.power->idle < Watts(0))
      found.push_back({"power.limit", "must be above power.idle, and neither negative"});
    if (gpu.power->flop < JoulesPerFlop(0)) found.push_back({"power.flop", "must not be negative"});
    if (gpu.power->byte < JoulesPerByte(0)) found.push_back({"power.byte", "must not be negative"});
  }
  if (gpu.calibration)
    for (const SpecProblem& problem : problems(*gpu.calibration))
      found.push_back({"calibration." + problem.path, problem.what});
  return found;
}

}  // namespace gpusim
