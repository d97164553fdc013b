// SPDX-License-Identifier: Apache-2.0
// A GPU and a host as data. Files of configs/hardware and configs/hosts hold them, sim/config/hardware_reader
// reads them; nothing here knows where a spec came from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/interconnect.hpp"
#include "models/hardware/kernel_calibration.hpp"
#include "models/hardware/launch_model.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// Number formats that hardware has rates for. Tf32 is fp32 data multiplied on tensor cores.
enum class Dtype : std::uint8_t { Fp64, Fp32, Tf32, Bf16, Fp16, Fp8, Fp4, Int8, Int4 };
inline constexpr int dtype_count = 9;

/// "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4".
std::string_view name(Dtype dtype);
std::optional<Dtype> find_dtype(std::string_view name);
/// Space that one element takes in memory, in bits: 64, 32, 32, 16, 16, 8, 4, 8, 4.
int bits(Dtype dtype);

enum class Vendor : std::uint8_t { Nvidia, Amd };
std::string_view name(Vendor vendor);

/// Dense peak of matrix products (multiply-adds counted as two) per dtype: never with structured sparsity.
/// fp32 is the rate of the vector units, fp64 that of the tensor cores where there are any for it.
class PeakTable {
 public:
  std::optional<FlopsPerSecond> find(Dtype dtype) const { return rates_[static_cast<std::size_t>(dtype)]; }
  void set(Dtype dtype, FlopsPerSecond rate) { rates_[static_cast<std::size_t>(dtype)] = rate; }
  bool empty() const;
  bool operator==(const PeakTable&) const = default;

 private:
  std::array<std::optional<FlopsPerSecond>, dtype_count> rates_{};
};

struct MemorySpec {
  Bytes capacity{0};
  BytesPerSecond bandwidth{0};
  BytesPerSecond bandwidth_top{
      0};  ///< The most that any kernel alone draws; 0: unknown, see bandwidth_top().
  BytesPerSecond bandwidth_per_sm{0};  ///< The most that one SM can ask for; 0: no limit.
  bool operator==(const MemorySpec&) const = default;
};

/// What an SM has room for: how many blocks of which kernels are on it at once.
struct SmSpec {
  std::int32_t threads = 2048;
  std::int32_t registers = 65536;
  Bytes shared_memory{228 * 1024};
  std::int32_t blocks = 32;
  bool operator==(const SmSpec&) const = default;
};

/// Pinned copies over the link between host and device; one rate per direction.
struct HostLinkSpec {
  BytesPerSecond host_to_device{0};
  BytesPerSecond device_to_host{0};
  bool operator==(const HostLinkSpec&) const = default;
};

struct CopySpec {
  Picoseconds latency{0};              ///< Duration of a copy of a few bytes.
  BytesPerSecond device_to_device{0};  ///< Bytes read plus bytes written.
  bool operator==(const CopySpec&) const = default;
};

/// What slows a device down that works hard for long: it lowers its clock until its power is within the
/// limit.
struct PowerSpec {
  Watts limit{0};
  Watts idle{0};          ///< Drawn whatever it does.
  JoulesPerFlop flop{0};  ///< Of products on tensor cores, at the clock at which kernels were measured.
  JoulesPerByte byte{0};  ///< Of memory traffic.
  bool operator==(const PowerSpec&) const = default;
};

struct GpuSpec {
  std::string key;   ///< What scenarios call it: "h200".
  std::string name;  ///< For people: "NVIDIA H200 SXM".
  Vendor vendor = Vendor::Nvidia;
  std::vector<std::string> aliases;  ///< Parts of device names as profilers print them.
  std::int32_t sms = 0;              ///< Streaming multiprocessors or compute units.
  std::optional<SmSpec> sm;          ///< Absent: unknown; kernels of several streams do not share the device.
  Hertz clock{0};                    ///< Highest.
  Bytes l2{0};                       ///< Last cache before the memory.
  MemorySpec memory;
  PeakTable peak;
  HostLinkSpec host_link;
  CopySpec copy;
  LaunchSpec launch;
  /// fp32 matrix products run as tf32 where there is a rate for it: a setting of the framework
  /// (torch.set_float32_matmul_precision), kept here since what prices products has the device at hand.
  bool tf32_products = true;
  /// How the ranks of the job reach each other; absent: nothing goes between ranks. The job's rather than the
  /// device's, kept here for the same reason.
  std::optional<Interconnect> links{};
  std::string
      interconnect;  ///< The link to the other GPUs of a node (configs/interconnects); empty: unknown.
  std::optional<PowerSpec> power;                ///< Absent: the clock never falls.
  std::optional<KernelCalibration> calibration;  ///< Absent: kernels cannot be priced (models/cost).

  bool operator==(const GpuSpec&) const = default;
};

/// A dtype that the device has no rate for. The message names those it has.
class NoPeakError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Dense peak for `dtype`. Throws NoPeakError.
FlopsPerSecond peak(const GpuSpec& gpu, Dtype dtype);

/// Arithmetic intensity in FLOP per byte of memory traffic above which a kernel is bound by arithmetic:
/// peak / bandwidth. Throws NoPeakError.
double ridge_point(const GpuSpec& gpu, Dtype dtype);

/// Largest bandwidth that any kernel alone draws, where it is not known 4.25 / 4.8 of the memory's: what an
/// H200 does (validation/h200/concurrency).
BytesPerSecond bandwidth_top(const GpuSpec& gpu);

/// Duration of a copy over the host link or within the device, as a profiler shows it: latency + bytes /
/// rate.
Picoseconds host_to_device_time(const GpuSpec& gpu, Bytes bytes);
Picoseconds device_to_host_time(const GpuSpec& gpu, Bytes bytes);
/// Reads and writes `bytes` each.
Picoseconds device_to_device_time(const GpuSpec& gpu, Bytes bytes);

/// The length of the longest alias that is part of `device_name`, or 0 if none is. Among several devices the
/// one with the longest match is meant ("NVIDIA H100 PCIe" is not the "NVIDIA H100").
std::size_t alias_match(const GpuSpec& gpu, std::string_view device_name);

/// Everything that is impossible in `gpu`; empty if it can be simulated.
std::vector<SpecProblem> problems(const GpuSpec& gpu);

}  // namespace gpusim
