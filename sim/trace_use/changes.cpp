// SPDX-License-Identifier: Apache-2.0
// What people write after --change, and how far off each kind was.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "models/units/text.hpp"
#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"
#include "sim/trace_use/what_if.hpp"

namespace gpusim {
namespace {

using Kind = TraceChange::Kind;

[[noreturn]] void refuse(std::string_view text, std::string what, std::string hint) {
  throw ConfigError(Diagnostic{.where = whole(fmt::format("--change {}", text)),
                               .path = "",
                               .what = std::move(what),
                               .hint = std::move(hint)});
}

/// "2x": how many times as much.
std::optional<double> times_of(std::string_view text) {
  if (text.size() < 2 || text.back() != 'x') return std::nullopt;
  const Parsed<double> value = parse_quantity<double>(text.substr(0, text.size() - 1));
  if (!value || !(value.value() > 0) || !std::isfinite(value.value()) || value.value() > 1e6 ||
      value.value() < 1e-6)
    return std::nullopt;
  return value.value();
}

double factor_of(std::string_view text, std::string_view value, const char* example) {
  const auto factor = times_of(value);
  if (!factor)
    refuse(text, fmt::format("'{}' is not a factor", value),
           fmt::format("write how many times, such as '{}' (between 0.000001x and 1000000x)", example));
  return *factor;
}

}  // namespace

TraceChange parse_change(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view key = text.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  const bool given = equals != std::string_view::npos;
  TraceChange change;
  change.text = std::string(text);
  const auto needs_value = [&](const char* example) {
    if (value.empty()) refuse(text, "a value is missing", fmt::format("write '{}'", example));
  };
  const auto needs_none = [&] {
    if (given) refuse(text, fmt::format("'{}' takes no value", key), fmt::format("write '{}'", key));
  };
  if (key == "cuda_graph") {
    change.kind = Kind::CudaGraph;
    if (value == "piecewise") {
      change.kind = Kind::PiecewiseGraphs;
    } else if (value.starts_with("around:") && value.size() > 7) {
      change.kind = Kind::PiecewiseGraphs;
      change.pattern = std::string(value.substr(7));
    } else if (given && value != "full") {
      refuse(text, fmt::format("unknown kind of CUDA graph '{}'", value),
             "write 'cuda_graph', 'cuda_graph=piecewise' or 'cuda_graph=around:PATTERN'");
    }
  } else if (key == "fuse") {
    change.kind = Kind::Fuse;
    if (given) needs_value("fuse=PATTERN");
    change.pattern = std::string(value);
  } else if (key == "compile") {
    needs_none();
    change.kind = Kind::Compile;
  } else if (key == "no_sync") {
    needs_none();
    change.kind = Kind::RemoveSyncs;
  } else if (key == "host") {
    needs_value("host=2x");
    change.kind = Kind::Host;
    change.factor = 1 / factor_of(text, value, "2x");
  } else if (key == "batch") {
    needs_value("batch=2x");
    change.kind = Kind::Batch;
    change.factor = factor_of(text, value, "2x");
  } else if (key == "gpu") {
    needs_value("gpu=b200");
    change.kind = Kind::Gpu;
    change.name = std::string(value);
  } else if (key == "kernel") {
    needs_value("kernel=PATTERN:2x");
    change.kind = Kind::Kernel;
    // Names of C++ have colons themselves.
    const std::size_t colon = value.rfind(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == value.size())
      refuse(text, "how fast the kernel shall be is missing",
             "write 'kernel=PATTERN:2x' (twice as fast) or 'kernel=PATTERN:30us'");
    change.pattern = std::string(value.substr(0, colon));
    const std::string_view how = value.substr(colon + 1);
    if (const auto factor = times_of(how)) {
      change.factor = 1 / *factor;
    } else {
      const Parsed<Picoseconds> duration = parse_quantity<Picoseconds>(how);
      if (!duration || duration.value() < Picoseconds(0))
        refuse(text, fmt::format("'{}' is neither a factor nor a time", how),
               "write 'kernel=PATTERN:2x' (twice as fast) or 'kernel=PATTERN:30us'");
      change.duration = duration.value();
    }
  } else {
    const std::vector<std::string> known{"cuda_graph", "fuse", "compile", "kernel",
                                         "host",       "gpu",  "no_sync", "batch"};
    refuse(text, fmt::format("unknown change '{}'", key), name_hint(key, known, "changes"));
  }
  return change;
}

// docs/accuracy.md, "What if", has every case; tests hold these numbers against it.
PredictionRecord record_of_baseline() {
  return {.worst = 0.055, .cases = 6, .measured = "unprofiled steps from profiled traces, H200"};
}

std::optional<PredictionRecord> record_of(Kind kind) {
  switch (kind) {
    case Kind::CudaGraph:
      return PredictionRecord{.worst = 0.035, .cases = 4, .measured = "steps as CUDA graphs, H200"};
    case Kind::Fuse:
    case Kind::Compile:
      return PredictionRecord{.worst = 0.058, .cases = 6, .measured = "compiled steps, H200"};
    case Kind::Batch:
      return PredictionRecord{.worst = 1.12, .cases = 6, .measured = "steps of smaller batches, H200"};
    case Kind::Gpu:
      return PredictionRecord{
          .worst = 0.12, .cases = 13, .measured = "published rates of products and copies"};
    case Kind::PiecewiseGraphs:
    case Kind::Kernel:
    case Kind::RemoveSyncs:
    case Kind::Host:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace gpusim
