// SPDX-License-Identifier: Apache-2.0
// Host costs and device efficiency from traces.
#include "sim/trace_use/calibrate_trace.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/replay.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/written_trace.hpp"

using namespace gpusim;
namespace fs = std::filesystem;
using gpusim::test::ContainsSubstring;
using gpusim::test::TraceText;
using gpusim::test::us;

namespace {

HostSpec base_host() {
  config::SearchPath search;
  const auto file = config::find_config("hosts", "xeon-h200-cloud", Location{"test", 0, 0}, search);
  return config::read_host(config::load_file(file), search);
}

const HostOpSample& sample(const HostFit& fit, const std::string& key) {
  for (const HostOpSample& s : fit.samples)
    if (s.key == key) return s;
  throw std::runtime_error("no sample of " + key);
}

/// Twenty-one ops every 20 us, each with a launch of 4 us; every third is mul, the others add.
TraceText twenty_ops() {
  TraceText text;
  for (int k = 0; k < 22; ++k) {
    const double at = 20.0 * k;
    text.cpu_op(k % 3 == 0 ? "aten::mul" : "aten::add", at, 12).launch(at + 3, 4, k + 1);
    text.kernel("k", at + 9, 2, k + 1);
  }
  return text;
}

/// Launches of 2 us: the traced 4 are half profiler.
GpuSpec gpu() {
  GpuSpec spec;
  spec.key = spec.name = "test";
  spec.launch.call = us(2);
  return spec;
}

struct EagerTrace {
  const char* name;
  double measured_us;  ///< steps.csv, without the profiler
};
constexpr EagerTrace eager[] = {{"llama8b_decode_B1_S1024_eager", 34555.48},
                                {"gpt2_train_B16_T1024_eager", 43699.54},
                                {"seed_decoder_B4_T1024_eager", 1019.86},
                                {"hand_ln_gelu_16384x4096_eager", 1541.53}};

std::string file_of(const char* name) {
  return std::string(GPUSIM_SHARED_DIR) + "/measured/h200/traces/" + name + ".trace.json.gz";
}

struct Pair {
  std::string from;
  std::string to;
  double measured = 0;
  double predicted = 0;
  double error() const { return predicted / measured - 1; }
};

/// The host of one trace, the step of another.
std::vector<Pair> pairs() {
  std::vector<Pair> result;
  config::SearchPath search;
  std::vector<Trace> traces;
  for (const EagerTrace& e : eager) traces.push_back(read_trace(file_of(e.name)));
  const std::optional<GpuSpec> h200 = config::hardware_of_device("NVIDIA H200", search);
  for (std::size_t a = 0; a < traces.size(); ++a) {
    const HostFit fit = fit_host({traces[a]}, {h200}, base_host());
    for (std::size_t b = 0; b < traces.size(); ++b) {
      ReplayOptions options;
      options.host_time = TraceWorkload::HostTime::Model;
      options.host = &fit.host;
      const Replay replay = build_replay(traces[b], &*h200, options);
      const engine::Steady steady = engine::run_steady(replay.built.program, replay.built.machine);
      const double us_per_step = static_cast<double>(steady.period.wall.count()) * 1e-6 /
                                 static_cast<double>(steady.period.steps * replay.built.steps_per_program);
      result.push_back({eager[a].name, eager[b].name, eager[b].measured_us, us_per_step});
    }
  }
  std::sort(result.begin(), result.end(),
            [](const Pair& x, const Pair& y) { return std::abs(x.error()) > std::abs(y.error()); });
  return result;
}

}  // namespace

TEST_CASE("An op costs what lies between its start and the next one's, without the profiler's share") {
  const HostFit fit = fit_host({twenty_ops().read()}, {gpu()}, base_host());
  // Launches of 4 us are 2 without the profiler: of 20 us between two ops 10 are left.
  CHECK(fit.factors[0] == Approx(0.5));
  CHECK(sample(fit, "add").mean == us(10));
  CHECK(sample(fit, "mul").mean == us(10));
  CHECK(sample(fit, "mul").count == 7);  // The last op has none after it.
  CHECK(sample(fit, "mul").launches == 1);
  CHECK(op_time(fit.host, "add", HostOpMode::NoGrad) == us(10));
}

TEST_CASE("The speed makes the base file's costs as long as those that both have") {
  const HostSpec base = base_host();
  const HostFit fit = fit_host({twenty_ops().read()}, {gpu()}, base);
  const double add = static_cast<double>(op_time(base, "add", HostOpMode::NoGrad).count()) * 1e-6;
  const double mul = static_cast<double>(op_time(base, "mul", HostOpMode::NoGrad).count()) * 1e-6;
  CHECK(fit.host.speed == Approx((14 * add + 7 * mul) / (21 * 10)));
}

TEST_CASE("Ops around which the host waited say nothing about it") {
  TraceText text = twenty_ops();
  text.call("cudaDeviceSynchronize", 15, 3);  // Between the first op and the second.
  const HostFit fit = fit_host({text.read()}, {gpu()}, base_host());
  CHECK(sample(fit, "mul").count == 6);
}

TEST_CASE("A calibrated host is a file that is read back") {
  const HostSpec base = base_host();
  const HostFit fit = fit_host({twenty_ops().read()}, {gpu()}, base);
  const std::string yaml = host_yaml(fit, base, {"a.json"});
  config::SearchPath search;
  const HostSpec read = config::read_host(config::load_text(yaml, "host.yaml"), search);
  CHECK(std::abs(op_time(read, "add", HostOpMode::NoGrad).count() - us(10).count()) < us(0.02).count());
  CHECK(read.speed == Approx(fit.host.speed).epsilon(0.001));
  CHECK_THAT(yaml, ContainsSubstring("# From a.json (host times times 0.500)"));
}

TEST_CASE("Elementwise kernels of one size are one case with their mean duration") {
  const std::string add =
      "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
      "std::array<char*, 3ul> >(int)";
  TraceText text;
  for (int k = 0; k < 2; ++k)
    text.launch(20 * k, 2, k + 1)
        .event("kernel", add, 20 * k + 5, 10 + 2 * k, 7,
               fmt::format(R"("device":0,"stream":7,"correlation":{},"grid":[8192,1,1],"block":[128,1,1])",
                           k + 1));
  const calibrate::KernelTable table = kernels_of({text.read()});
  REQUIRE(table.cases.size() == 1);
  CHECK(table.cases[0].name == "elementwise CUDAFunctor_add<BFloat16>/8388608");
  CHECK(table.cases[0].us == Approx(11));
  config::SearchPath search;
  const GpuSpec h200 = *config::hardware_of_device("NVIDIA H200", search);
  const auto works = table.cases[0].works(h200);
  CHECK(std::get<Pointwise>(works[0].work).read == Bytes(2 * 2 * 8388608));
}

TEST_CASE("A host from one eager trace predicts the step of another") {
  if (!fs::exists(file_of("llama8b_decode_B1_S1024_eager"))) return;
  for (const Pair& pair : pairs()) {
    INFO(pair.from << " -> " << pair.to);
    // What a training step shows of the host says little about inference: see docs/accuracy.md.
    const bool other_mode = pair.from.starts_with("gpt2_train") && pair.to.starts_with("llama");
    CHECK(std::abs(pair.error()) < (other_mode ? 0.95 : 0.15));
  }
}

TEST_CASE("Table of hosts from traces", "[.table]") {
  for (const Pair& pair : pairs())
    std::cout << fmt::format("| {} | {} | {:.1f} | {:.1f} | {:+.1f} % |\n", pair.from, pair.to, pair.measured,
                             pair.predicted, 100 * pair.error());
}
