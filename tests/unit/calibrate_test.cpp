// SPDX-License-Identifier: Apache-2.0
// The table of measured kernels, what its names mean, how well the shipped parameters do, and that a fit
// finds its way back.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "sim/calibrate/fit.hpp"
#include "sim/config/calibration_reader.hpp"
#include "sim/config/error.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

using namespace gpusim;
using namespace gpusim::calibrate;
using gpusim::test::message_of;

namespace {

const GpuSpec& h200() {
  static const GpuSpec gpu = config::read_hardware(config::load_text("h200", "h200"), {});
  return gpu;
}

const KernelTable& shipped() {
  static const KernelTable table = [] {
    const std::string folder = GPUSIM_SOURCE_DIR "/validation/h200/";
    KernelTable both = read_kernel_table(folder + "kernels.csv");
    KernelTable networks = read_kernel_table(folder + "kernels-networks.csv");
    for (KernelCase& one : networks.cases) both.cases.push_back(std::move(one));
    for (std::string& name : networks.unknown) both.unknown.push_back(std::move(name));
    return both;
  }();
  return table;
}

KernelCase understood(const std::string& name) {
  KernelCase one;
  one.name = name;
  REQUIRE(understand(one));
  return one;
}

}  // namespace

TEST_CASE("Names of cases become work", "[calibrate]") {
  const auto works = [](const std::string& name) { return understood(name).works(h200()); };
  const auto product = std::get<MatrixProduct>(works("gemm/fp8/64x4096x14336").front().work);
  CHECK(product.m == 64);
  CHECK(product.n == 4096);
  CHECK(product.k == 14336);
  CHECK(product.dtype == Dtype::Fp8);
  CHECK(product.output == Dtype::Bf16);
  const auto attention =
      std::get<Attention>(works("sdpa_gqa_fwd/bf16/B1H32Hkv8T512D128/causal").front().work);
  CHECK(attention.kv_heads == 8);
  CHECK(attention.causal);
  CHECK(works("sdpa_fwdbwd/bf16/B1H32T128D128/full").size() == 2);
  const auto relu = std::get<Pointwise>(works("ew/relu_inplace/bf16/N64C64H56/cold").front().work);
  CHECK(relu.elements == 64 * 64 * 56 * 56);
  const auto conv = std::get<Convolution>(works("conv_nchw/bf16/N64C256H56K512k1s2").front().work);
  CHECK(conv.stride == 2);
  CHECK_FALSE(conv.channels_last);
}

TEST_CASE("Buffers that are taken in turn are cold, a single one is hot while it fits", "[calibrate]") {
  const auto state = [](const std::string& name) { return understood(name).works(h200()).front().cache; };
  CHECK(state("ew/relu/bf16/8388608/cold").cold_reads == 1);
  CHECK(state("ew/relu/bf16/8388608/hot").cold_reads == 0);
  CHECK(state("ew/relu/bf16/67108864/hot").cold_reads == 1);
  // 24 sets of 1 MB are all the script makes: they stay in the L2 together.
  CHECK(state("ew/relu/bf16/262144/cold").cold_reads == 0);
}

TEST_CASE("Unknown names are left out and counted, not priced", "[calibrate]") {
  const KernelTable table = parse_kernel_table(
      "case,us\newx/relu/bf16/1024/cold,1\ngemm/bf16/1x2,1\ngemm/bf16/8x8x8,2.5\n,1\n", "t.csv");
  CHECK(table.cases.size() == 1);
  CHECK(table.unknown.size() == 3);
  CHECK(table.cases.front().us == 2.5);
}

TEST_CASE("Commas in quotes and comments do not shift columns", "[calibrate]") {
  const KernelTable table = parse_kernel_table(
      "# a table\ncase,name,us,kernels\n\"gemm/bf16/8x8x8\",\"a, \"\"b\"\"\",3.5,2\r\n", "t.csv");
  REQUIRE(table.cases.size() == 1);
  CHECK(table.cases.front().us == 3.5);
  CHECK(table.cases.front().gpu_ops == 2);
}

TEST_CASE("Bad tables are located errors", "[calibrate][bad_input]") {
  const auto message = [](const std::string& text) {
    return message_of([&] { parse_kernel_table(text, "t.csv"); });
  };
  CHECK(message("case,ms\na,1\n").find("t.csv:1:1: error: the table has no column 'us'") !=
        std::string::npos);
  CHECK(message("case,us\ngemm/bf16/8x8x8,fast\n").find("t.csv:2:1") != std::string::npos);
  CHECK(message("case,us\ngemm/bf16/8x8x8,-1\n").find("has no duration") != std::string::npos);
  CHECK(message("case,us\ngemm/bf16/8x8x8,nan\n").find("has no duration") != std::string::npos);
  CHECK_THROWS_AS(read_kernel_table("/nowhere/kernels.csv"), ConfigError);
}

TEST_CASE("All 508 cases of the first table are understood", "[calibrate]") {
  const KernelTable table = read_kernel_table(GPUSIM_SOURCE_DIR "/validation/h200/kernels.csv");
  CHECK(table.cases.size() == 508);
  CHECK(table.unknown.empty());
}

TEST_CASE("The shipped parameters predict the measured kernels", "[calibrate]") {
  std::vector<CaseResult> all;
  std::map<std::string, Errors3> by_family;
  int counted = 0;
  int right = 0;
  for (const FamilyResult& family : evaluate(h200(), shipped())) {
    by_family[family.family] = errors_of(family.cases, false);
    for (const CaseResult& one : family.cases) {
      all.push_back(one);
      ++counted;
      right += one.measured_ops == one.predicted_ops ? 1 : 0;
    }
  }
  const Errors3 errors = errors_of(all, false);
  CHECK(errors.n > 1300);
  CHECK(errors.median < 0.042);
  CHECK(errors.p90 < 0.145);
  CHECK(right >= 0.96 * counted);
  CHECK(by_family.at("product").median < 0.035);
  CHECK(by_family.at("product").p90 < 0.14);
  CHECK(by_family.at("elementwise").p90 < 0.12);
  CHECK(by_family.at("attention").p90 < 0.07);
  CHECK(by_family.at("inductor").p90 < 0.13);
  CHECK(by_family.at("alu").max < 0.10);
}

TEST_CASE("The shipped parameters predict kernels of training", "[calibrate]") {
  const KernelTable table = read_kernel_table(GPUSIM_SOURCE_DIR "/validation/h200/kernels-training.csv");
  CHECK(table.cases.size() == 415);
  CHECK(table.unknown.empty());
  std::map<std::string, Errors3> by_family;
  for (const FamilyResult& family : evaluate(h200(), table))
    by_family[family.family] = errors_of(family.cases, false);
  CHECK(by_family.at("batch norm in training").median < 0.06);
  CHECK(by_family.at("batch norm in training").p90 < 0.15);
  CHECK(by_family.at("convolution gradient").median < 0.08);
  CHECK(by_family.at("convolution gradient").p90 < 0.16);
  CHECK(by_family.at("fp32 attention").p90 < 0.12);
  CHECK(by_family.at("tf32 product").median < 0.09);
  CHECK(by_family.at("column_sum").p90 < 0.12);
  CHECK(by_family.at("product gradient").median < 0.08);
}

TEST_CASE("Whole groups held out are predicted nearly as well as seen ones", "[calibrate]") {
  FitOptions options;
  options.starts = 1;
  options.families = {"argmax", "full_sum"};
  const FitResult result = fit(h200(), shipped(), options);
  REQUIRE(result.families.size() == 2);
  std::vector<CaseResult> all;
  for (const FamilyResult& family : result.families)
    all.insert(all.end(), family.cases.begin(), family.cases.end());
  const Errors3 errors = errors_of(all, true);
  CHECK(errors.n > 25);
  CHECK(errors.median < 0.06);
  CHECK(errors.p90 < 0.20);
  // The same seed gives the same fit.
  const FitResult again = fit(h200(), shipped(), options);
  CHECK(*again.gpu.calibration == *result.gpu.calibration);
  CHECK(again.families.back().cases.back().held_out_us == result.families.back().cases.back().held_out_us);
}

TEST_CASE("A fit finds parameters that were turned away from", "[calibrate]") {
  GpuSpec wrong = h200();
  wrong.calibration->column_sum.full_share *= 0.7;
  wrong.calibration->column_sum.full_start *= 1.5;
  FitOptions options;
  options.cross_validate = false;
  options.families = {"full_sum"};
  const FitResult result = fit(wrong, shipped(), options);
  CHECK(std::abs(result.gpu.calibration->column_sum.full_share / h200().calibration->column_sum.full_share -
                 1) < 0.05);
  // What no case of the family shows stays as it was.
  CHECK(result.gpu.calibration->product.start == h200().calibration->product.start);
}

TEST_CASE("A calibration written out reads back the same", "[calibrate]") {
  const std::string text =
      config::write_calibration(*h200().calibration, [](const CalibrationParameter&) { return "test"; });
  const KernelCalibration back =
      config::read_calibration(config::load_text(text, "t.yaml").at("calibration"));
  for (const CalibrationParameter& parameter : calibration_parameters()) {
    INFO(parameter.section << "." << parameter.key);
    CHECK(std::abs(parameter.value(back) / parameter.value(*h200().calibration) - 1) < 1e-4);
  }
}

TEST_CASE("Mistakes in a calibration are located", "[calibrate][bad_input]") {
  const std::string good =
      config::write_calibration(*h200().calibration, [](const CalibrationParameter&) { return "test"; });
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return message_of([&] { config::read_calibration(config::load_text(text, "t.yaml").at("calibration")); });
  };
  CHECK(message("  pointwise:\n    start:", "  pointwise:\n    begin:").find("calibration.pointwise") !=
        std::string::npos);
  CHECK(message("    memory_blocks:", "    memory_block:").find("calibration.product") != std::string::npos);
  CHECK(message("  alu:\n    add: ", "  alu:\n    add: -").find("must be positive") != std::string::npos);
}
