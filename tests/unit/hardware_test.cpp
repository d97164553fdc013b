// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "models/hardware/launch_model.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/config/overlay.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using namespace literals;
using test::Approx;
using test::ContainsSubstring;

const std::filesystem::path configs = std::filesystem::path(GPUSIM_SOURCE_DIR) / "configs";

config::SearchPath search_in(const std::filesystem::path& beside = {}) {
  return {.beside = beside, .extra = {}, .builtin = configs};
}

GpuSpec gpu(const std::string& yaml) {
  return config::read_hardware(config::load_text(yaml, "test.yaml"), search_in());
}
HostSpec host(const std::string& yaml) {
  return config::read_host(config::load_text(yaml, "test.yaml"), search_in());
}

std::string mistake_in(const std::string& yaml) {
  try {
    gpu(yaml);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Picoseconds us(double value) {
  return from_seconds(value * 1e-6);
}

const std::vector<std::string> gpu_names{"a100_40gb", "a100_80gb", "a10g", "b200",
                                         "h100_pcie", "h100_sxm",  "h200", "l40s",
                                         "mi300x",    "rtx4090",   "t4",   "v100"};
const std::vector<std::string> host_names{"fast-desktop", "slow-vm", "xeon-h200-cloud"};

/// A folder of configurations that a test makes for itself.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("gpusim_hardware_" + unique())) {
    std::filesystem::create_directories(path_ / "hardware");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / "hardware" / (name + ".yaml")) << text;
  }
  GpuSpec gpu(const std::string& yaml) const {
    return config::read_hardware(config::load_text(yaml, "test.yaml"), search_in(path_));
  }

 private:
  static std::string unique() {
    static int count = 0;
    return std::to_string(std::hash<std::string>{}(std::filesystem::current_path().string())) + "_" +
           std::to_string(++count);
  }
  std::filesystem::path path_;
};

// --- The shipped files.

TEST_CASE("every shipped GPU loads and can be simulated") {
  CHECK(config::known_configs("hardware", search_in()) == gpu_names);
  for (const std::string& name : gpu_names) {
    INFO(name);
    const GpuSpec spec = gpu(name);
    CHECK(spec.key == name);
    CHECK(problems(spec).empty());
    CHECK_FALSE(spec.aliases.empty());
    CHECK(spec.launch.transferred == (name != "h200"));
  }
}

TEST_CASE("every shipped host loads") {
  CHECK(config::known_configs("hosts", search_in()) == host_names);
  for (const std::string& name : host_names) {
    INFO(name);
    const HostSpec spec = host(name);
    CHECK(spec.key == name);
    CHECK(problems(spec).empty());
    CHECK(spec.ops.size() > 30);
  }
}

TEST_CASE("every number in the shipped files has its source on its line") {
  int numbers = 0;
  for (const char* kind : {"hardware", "hosts"}) {
    for (const auto& file : std::filesystem::directory_iterator(configs / kind)) {
      std::ifstream text(file.path());
      std::string line;
      for (int row = 1; std::getline(text, line); ++row) {
        const std::size_t hash = line.find('#');
        const std::string code = line.substr(0, hash);
        const std::size_t colon = code.find(": ");
        if (colon == std::string::npos) continue;
        const std::string key = code.substr(code.find_first_not_of(' '), colon - code.find_first_not_of(' '));
        const std::string value = code.substr(colon + 2);
        if (key == "name" || key == "aliases" || key == "base" || value.find("{base:") == 0) continue;
        const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
        if (std::none_of(value.begin(), value.end(), digit)) continue;
        ++numbers;
        INFO(file.path().filename().string() << ":" << row << ": " << line);
        CHECK(hash != std::string::npos);
        CHECK(line.size() - std::min(hash, line.size()) > 4);
      }
    }
  }
  CHECK(numbers > 200);
}

TEST_CASE("shipped peaks are dense: fp8 runs at twice bf16, bf16 at twice tf32") {
  for (const std::string& name : gpu_names) {
    INFO(name);
    const PeakTable table = gpu(name).peak;
    const auto bf16 = table.find(Dtype::Bf16);
    // L40S: its datasheet rounds bf16 down to 362 and fp8 up to 733.
    if (bf16 && table.find(Dtype::Fp8)) CHECK(*table.find(Dtype::Fp8) / *bf16 == Approx(2).epsilon(0.015));
    if (bf16 && table.find(Dtype::Tf32)) CHECK(*bf16 / *table.find(Dtype::Tf32) == Approx(2).epsilon(0.015));
    if (bf16 && table.find(Dtype::Fp16)) CHECK(*bf16 == *table.find(Dtype::Fp16));
  }
}

TEST_CASE("shipped tensor peaks are SMs x tensor cores x FMA per clock x 2 x clock") {
  struct Row {
    const char* name;
    double cores, fma, gigahertz;  // Per SM; dense 16-bit FMAs per core and clock; clock under tensor load.
  };
  for (const Row& row :
       {Row{"h200", 4, 512, 1.83}, Row{"h100_sxm", 4, 512, 1.83}, Row{"h100_pcie", 4, 512, 1.62},
        Row{"a100_80gb", 4, 256, 1.41}, Row{"a100_40gb", 4, 256, 1.41}, Row{"v100", 8, 64, 1.53},
        Row{"t4", 8, 64, 1.59}, Row{"a10g", 4, 64, 1.71}, Row{"l40s", 4, 128, 2.52},
        Row{"rtx4090", 4, 64, 2.52}, Row{"b200", 4, 1024, 1.86}, Row{"mi300x", 4, 256, 2.1}}) {
    INFO(row.name);
    const GpuSpec spec = gpu(row.name);
    CHECK(peak(spec, Dtype::Fp16).value() ==
          Approx(spec.sms * row.cores * row.fma * 2 * row.gigahertz * 1e9).epsilon(0.013));
  }
}

TEST_CASE("shipped fp32 peaks are lanes x 2 x clock") {
  struct Row {
    const char* name;
    double lanes;
  };
  for (const Row& row : {Row{"h200", 128}, Row{"h100_sxm", 128}, Row{"h100_pcie", 128}, Row{"a100_80gb", 64},
                         Row{"a100_40gb", 64}, Row{"v100", 64}, Row{"t4", 64}, Row{"a10g", 128},
                         Row{"l40s", 128}, Row{"rtx4090", 128}, Row{"b200", 128}}) {
    INFO(row.name);
    const GpuSpec spec = gpu(row.name);
    CHECK(peak(spec, Dtype::Fp32).value() ==
          Approx(spec.sms * row.lanes * 2 * spec.clock.value()).epsilon(0.01));
  }
}

TEST_CASE("the H200 has the figures that people know") {
  const GpuSpec h200 = gpu("h200");
  CHECK(h200.sms == 132);
  CHECK(h200.l2 == 60_MiB);
  CHECK(h200.memory.bandwidth == BytesPerSecond(4.8e12));
  CHECK(peak(h200, Dtype::Bf16) == FlopsPerSecond(989.4e12));
  CHECK(ridge_point(h200, Dtype::Bf16) == Approx(206.125));  // 989.4 / 4.8
  CHECK(ridge_point(gpu("h100_sxm"), Dtype::Bf16) == Approx(295.34).margin(0.01));
}

TEST_CASE("the H200's launch numbers are those of the measured file") {
  const std::filesystem::path shared = GPUSIM_SHARED_DIR;
  const auto file = shared / "measured/h200/launch.json";
  if (shared.empty() || !std::filesystem::exists(file)) {
    SUCCEED("no measured data here");
    return;
  }
  std::ifstream text(file);
  const auto measured = nlohmann::json::parse(text);
  const GpuSpec h200 = gpu("h200");
  const LaunchSpec& launch = h200.launch;
  const auto at = [&](const char* key) { return us(measured.at(key).get<double>()); };
  CHECK(launch.call == us(measured.at("launch_cpu_us").at("median").get<double>()));
  CHECK(launch.queue_depth == measured.at("queue_depth_first_blocked_launch").get<int>());
  CHECK(launch.event_record == at("event_record_us"));
  CHECK(launch.stream_wait == at("stream_wait_us"));
  CHECK(launch.sync_call == at("sync_idle_us"));
  CHECK(h200.host_link.host_to_device.value() == Approx(measured.at("h2d_GBps").get<double>() * 1e9));
  CHECK(h200.copy.device_to_device.value() == Approx(measured.at("d2d_TBps_rw").get<double>() * 1e12));
  CHECK(h200.clock.value() == Approx(measured.at("clock_khz").get<double>() * 1e3));
  for (const auto& row : measured.at("gap")) {
    if (row.at("cycles") != 0) continue;
    const auto blocks = row.at("blocks").get<std::int64_t>();
    CHECK(min_period(launch, blocks) == us(row.at("stream_us").get<double>()));
    CHECK(graph_min_period(launch, blocks) == us(row.at("graph_us").get<double>()));
  }
  const Picoseconds hop = at("cross_stream_us_per_hop_incl_5000cyc_kernel");
  for (const auto& row : measured.at("gap"))
    if (row.at("cycles") == 5000 && row.at("blocks") == 1) {
      const Picoseconds added = hop - us(row.at("stream_us").get<double>());
      const Picoseconds gap = launch.gap.at(GapClass::ShortKernel, GapClass::ShortKernel);
      CHECK(microseconds(launch.event_latency) == Approx(microseconds(gap + added)).margin(0.005));
    }
  CHECK(launch.sync_return ==
        at("launch_sync_roundtrip_us") - launch.call - launch.arrival_after_call - us(0.9));
  double latency_sum = 0;
  for (const auto& row : measured.at("graph")) {
    const auto nodes = row.at("nodes").get<std::int64_t>();
    const Picoseconds call = us(row.at("cpu_launch_us").get<double>());
    CHECK(graph_call_time(launch, nodes) == call);
    // A replay of empty kernels from call to the end of the synchronisation, put together again.
    const Picoseconds wall = us(row.at("wall_us").get<double>());
    const Picoseconds rest = call + nodes * graph_min_period(launch, 1) + launch.sync_return;
    if (nodes <= 32) latency_sum += microseconds(wall - rest);
    CHECK(microseconds(rest + launch.cuda_graph.arrival_after_call) ==
          Approx(microseconds(wall)).epsilon(0.035));
  }
  CHECK(microseconds(launch.cuda_graph.arrival_after_call) == Approx(latency_sum / 4).margin(0.005));
}

TEST_CASE("the measured host's costs are those of the measured file") {
  std::ifstream file(std::string(GPUSIM_SOURCE_DIR) + "/validation/h200/host_ops.csv");
  REQUIRE(file);
  const HostSpec xeon = host("xeon-h200-cloud");
  std::string line;
  std::getline(file, line);
  int compared = 0;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string op, mode, run, in_situ;
    std::getline(cells, op, ',');
    std::getline(cells, mode, ',');
    std::getline(cells, run, ',');
    std::getline(cells, in_situ, ',');
    // Ops that are called the same and mean the same in both (the GELU is the one by tanh, the slice that of
    // a last dimension); the file's comments say which ones stand for others.
    if (run != "2" || (mode != "no_grad" && mode != "grad") || xeon.ops.count(op) == 0 || op == "where" ||
        op == "gelu" || op == "slice")
      continue;
    INFO(op << ' ' << mode);
    if (mode == "no_grad") CHECK(op_time(xeon, op, HostOpMode::NoGrad) == us(std::stod(in_situ)));
    // Half of what grad costs more there, which includes the end of the graph that it makes.
    const double without = microseconds(op_time(xeon, op, HostOpMode::NoGrad));
    if (mode == "grad")
      CHECK(microseconds(op_time(xeon, op, HostOpMode::Grad)) ==
            Approx((without + std::stod(in_situ)) / 2).margin(0.006));
    ++compared;
  }
  CHECK(compared > 80);
}

TEST_CASE("device names of profilers find their file") {
  const auto key = [](const char* device) {
    const auto spec = config::hardware_of_device(device, search_in());
    return spec ? spec->key : "";
  };
  CHECK(key("NVIDIA H200") == "h200");
  CHECK(key("NVIDIA H100 80GB HBM3") == "h100_sxm");
  CHECK(key("NVIDIA H100 PCIe") == "h100_pcie");
  CHECK(key("NVIDIA A100-SXM4-80GB") == "a100_80gb");
  CHECK(key("NVIDIA A100-SXM4-40GB") == "a100_40gb");
  CHECK(key("NVIDIA A100-PG509-200") == "a100_40gb");
  CHECK(key("Tesla V100-SXM2-16GB") == "v100");
  CHECK(key("Tesla T4") == "t4");
  CHECK(key("NVIDIA A10G") == "a10g");
  CHECK(key("NVIDIA L40S") == "l40s");
  CHECK(key("NVIDIA GeForce RTX 4090") == "rtx4090");
  CHECK(key("NVIDIA B200") == "b200");
  CHECK(key("AMD Instinct MI300X") == "mi300x");
  CHECK(key("AMD Radeon Graphics").empty());
  CHECK(key("NVIDIA T400").empty());
}

// --- The launch model.

TEST_CASE("a table of times is linear between its points, flat before and goes on after them") {
  const TimeTable table{{{1, 10_us}, {11, 20_us}, {111, 30_us}}};
  CHECK(table.at(0) == 10_us);
  CHECK(table.at(1) == 10_us);
  CHECK(table.at(6) == 15_us);
  CHECK(table.at(11) == 20_us);
  CHECK(table.at(61) == 25_us);
  CHECK(table.at(111) == 30_us);
  CHECK(table.at(211) == 40_us);  // 10 us per 100 goes on.
  CHECK(TimeTable{}.at(5) == 0_us);
  CHECK((TimeTable{{{7, 3_us}}}.at(1000)) == 3_us);
}

TEST_CASE("a table that falls at its end does not fall below zero") {
  const TimeTable table{{{1, 10_us}, {2, 4_us}}};
  CHECK(table.at(1000) == 0_us);
}

TEST_CASE("the cost of launching a CUDA graph follows the measured nodes") {
  const LaunchSpec launch = gpu("h200").launch;
  CHECK(graph_call_time(launch, 1) == us(1.442));
  // Half way from 1024 (3.579) to 2048 (7.779).
  CHECK(graph_call_time(launch, 1536) == us(5.679));
  // 22.861 at 4096, and 15.082 more for each 2048.
  CHECK(graph_call_time(launch, 8192) == us(22.861 + 2 * 15.082));
}

TEST_CASE("the least period of empty kernels goes on in a straight line") {
  // 1.9605 at 1056 blocks, 0.5593 for the 924 blocks before; 8448 blocks were measured apart, at 6.47 us.
  CHECK(microseconds(min_period(gpu("h200").launch, 8448)) ==
        Approx(1.9605 + 7392 * 0.5593 / 924).margin(1e-4));
  CHECK(microseconds(min_period(gpu("h200").launch, 8448)) == Approx(6.47).epsilon(0.01));
}

TEST_CASE("the gap class of an op is its kind, and for kernels its duration") {
  CHECK(gap_class(LaunchedOp::Kernel, 3_us) == GapClass::ShortKernel);
  CHECK(gap_class(LaunchedOp::Kernel, 4_us) == GapClass::LongKernel);
  CHECK(gap_class(LaunchedOp::Kernel, 9_us, true) == GapClass::Programmatic);
  CHECK(gap_class(LaunchedOp::Memset, 9_us) == GapClass::Memset);
  CHECK(gap_class(LaunchedOp::HostCopy, 1_us) == GapClass::Memcpy);
  CHECK(gap_class(LaunchedOp::DeviceCopy, 1_us) == GapClass::ShortKernel);
  CHECK(gap_class(LaunchedOp::DeviceCopy, 5_us, true) == GapClass::LongKernel);
  CHECK(gap_class(LaunchedOp::CudaGraph, 1_us) == GapClass::CudaGraph);
}

TEST_CASE("the H200's gaps are those of the traces and of captured steps") {
  const LaunchSpec launch = gpu("h200").launch;
  CHECK(launch.gap.at(GapClass::ShortKernel, GapClass::LongKernel) == us(1.12));
  CHECK(launch.gap.at(GapClass::LongKernel, GapClass::ShortKernel) == us(1.52));
  CHECK(launch.gap.at(GapClass::LongKernel, GapClass::Memset) == us(1.45));
  CHECK(launch.gap.at(GapClass::Memset, GapClass::ShortKernel) == us(1.80));
  CHECK(launch.gap.at(GapClass::LongKernel, GapClass::Programmatic) == us(-0.13));
  CHECK(launch.gap.at(GapClass::Memset, GapClass::Programmatic) == us(1.80));
  CHECK(launch.graph_gap.at(GapClass::LongKernel, GapClass::ShortKernel) == us(0.38));
  // A memset node costs 1 us more than the kernel node in its place.
  const Picoseconds memset = launch.graph_gap.at(GapClass::ShortKernel, GapClass::Memset) +
                             launch.graph_gap.at(GapClass::Memset, GapClass::ShortKernel);
  CHECK(memset == us(1.35));
  CHECK(launch.code_fetch == us(0.22));
}

TEST_CASE("copies take their latency and bytes over the rate") {
  GpuSpec spec = gpu("h200");
  spec.copy = {.latency = 2_us, .device_to_device = BytesPerSecond(2e12)};
  spec.host_link = {.host_to_device = BytesPerSecond(50e9), .device_to_host = BytesPerSecond(25e9)};
  CHECK(host_to_device_time(spec, Bytes(1'000'000)) == 22_us);
  CHECK(device_to_host_time(spec, Bytes(1'000'000)) == 42_us);
  CHECK(device_to_device_time(spec, Bytes(1'000'000)) == 3_us);  // Read and written.
}

TEST_CASE("a dtype without a peak is refused with the known ones") {
  try {
    peak(gpu("v100"), Dtype::Bf16);
    FAIL("no error");
  } catch (const NoPeakError& error) {
    CHECK(std::string(error.what()) == "v100 has no peak for bf16; known: fp64, fp32, fp16");
  }
}

TEST_CASE("names of dtypes lead back to them") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    CHECK(find_dtype(name(dtype)) == dtype);
  }
  CHECK_FALSE(find_dtype("bfloat16"));
  CHECK(bits(Dtype::Fp4) == 4);
  CHECK(bits(Dtype::Tf32) == 32);
}

TEST_CASE("what an SM has room for is the data-centre NVIDIA's unless it is given, and unknown of AMD's") {
  const std::string rest =
      ", sms: 4, clock: 1 GHz, l2: 1 MiB, memory: {capacity: 1 GiB, bandwidth: 480 GB/s}, "
      "peak: {bf16: 1 TFLOP/s}, host_link: {h2d: 1 GB/s, d2h: 1 GB/s}, "
      "copy: {latency: 1 us, d2d: 1 GB/s}, launch: {base: h200}}";
  const GpuSpec nvidia = gpu("{name: a" + rest);
  REQUIRE(nvidia.sm);
  CHECK(*nvidia.sm == SmSpec{2048, 65536, 228_KiB, 32});
  CHECK(bandwidth_top(nvidia).value() == Approx(425e9));
  CHECK_FALSE(gpu("{vendor: amd" + rest).sm);
  CHECK(gpu("{vendor: amd, sm: {threads: 9}" + rest).sm->threads == 9);
  CHECK_FALSE(gpu("{base: h200, sm: null}").sm);
  CHECK(*gpu("{base: l40s, sm: {blocks: 7}}").sm == SmSpec{1536, 65536, 100_KiB, 7});
}

TEST_CASE("impossible SMs and bandwidths are refused") {
  CHECK_THAT(mistake_in("{base: h200, sm: {threads: 0}}"),
             ContainsSubstring("sm.threads: must be at least 1"));
  CHECK_THAT(mistake_in("{base: h200, sm: {shared_memory: 0 B}}"),
             ContainsSubstring("sm.shared_memory: must be positive"));
  CHECK_THAT(mistake_in("{base: h200, sm: {theads: 1}}"), ContainsSubstring("did you mean 'threads'"));
  CHECK_THAT(mistake_in("{base: h200, sm: 5}"), ContainsSubstring("sm: "));
  CHECK_THAT(mistake_in("{base: h200, memory: {bandwidth_top: 5 TB/s}}"),
             ContainsSubstring("memory.bandwidth_top: no kernel draws more than memory.bandwidth, 4.8 TB/s"));
  CHECK_THAT(mistake_in("{base: h200, memory: {bandwidth_per_sm: -1 GB/s}}"),
             ContainsSubstring("memory.bandwidth_per_sm: must not be negative"));
  GpuSpec spec = gpu("h200");
  spec.sm->blocks = 0;
  spec.memory.bandwidth_per_sm = BytesPerSecond(-1);
  std::vector<std::string> paths;
  for (const SpecProblem& problem : problems(spec)) paths.push_back(problem.path);
  CHECK(paths == std::vector<std::string>{"memory.bandwidth_per_sm", "sm.blocks"});
}

TEST_CASE("problems name the field") {
  GpuSpec spec = gpu("h200");
  spec.sms = 0;
  spec.memory.bandwidth = BytesPerSecond(std::nan(""));
  spec.launch.queue_depth = 0;
  spec.launch.gap.at(GapClass::Memset, GapClass::Memcpy) = -1_us;
  spec.launch.min_period.points = {{5, 1_us}, {5, 2_us}};
  std::vector<std::string> paths;
  for (const SpecProblem& problem : problems(spec)) paths.push_back(problem.path);
  CHECK(paths == std::vector<std::string>{"sms", "memory.bandwidth", "launch.queue_depth",
                                          "launch.gap.memset.memcpy", "launch.min_period"});
}

// --- Hosts.

TEST_CASE("a host's speed divides its costs") {
  const Picoseconds add = op_time(host("xeon-h200-cloud"), "add", HostOpMode::NoGrad);
  CHECK(op_time(host("fast-desktop"), "add", HostOpMode::NoGrad) == add / 2);
  CHECK(op_time(host("slow-vm"), "add", HostOpMode::NoGrad) == add * 2);
  CHECK(op_time(host("{base: xeon-h200-cloud, speed: 4}"), "add", HostOpMode::NoGrad) == add / 4);
}

TEST_CASE("an op that a host does not list takes the default cost, or is refused") {
  const HostSpec listed = host("{ops: {mm: 14 us, add: {no_grad: 9 us, grad: 12 us}}}");
  CHECK(op_time(listed, "mm", HostOpMode::Grad) == 14_us);
  CHECK(op_time(listed, "add", HostOpMode::Grad) == 12_us);
  CHECK_THROWS_WITH(op_time(listed, "conv", HostOpMode::NoGrad), ContainsSubstring("known: add, mm"));
  CHECK_THROWS_WITH(op_time(listed, "mm", HostOpMode::Backward),
                    ContainsSubstring("no backward cost for op 'mm'"));
  CHECK(op_time(host("{ops: {mm: 14 us}, default_op: 7 us}"), "conv", HostOpMode::NoGrad) == 7_us);
}

// --- Reading.

TEST_CASE("a map over a base changes what it names and nothing else") {
  GpuSpec expected = gpu("h200");
  expected.memory.bandwidth = BytesPerSecond(6e12);
  expected.launch.gap.at(GapClass::ShortKernel, GapClass::ShortKernel) = 3_us;
  expected.launch.call = 6_us;
  CHECK(gpu("{base: h200, memory: {bandwidth: 6 TB/s},"
            " launch: {call: 6 us, gap: {short_kernel: {short_kernel: 3 us}}}}") == expected);
}

TEST_CASE("one time stands for a whole table, row or column") {
  const LaunchSpec flat =
      gpu("{base: h200, launch: {gap: 2 us, min_period: 0 us, cuda_graph: {call: 5 us}}}").launch;
  for (int before = 0; before < gap_class_count; ++before)
    for (int after = 0; after < gap_class_count; ++after)
      CHECK(flat.gap.at(static_cast<GapClass>(before), static_cast<GapClass>(after)) == 2_us);
  CHECK(flat.min_period.at(5000) == 0_us);
  CHECK(graph_call_time(flat, 4096) == 5_us);

  const LaunchSpec row = gpu("{base: h200, launch: {gap: {memset: 9 us}}}").launch;
  CHECK(row.gap.at(GapClass::Memset, GapClass::Programmatic) == 9_us);
  CHECK(row.gap.at(GapClass::Memcpy, GapClass::Memcpy) == us(1.31));
}

TEST_CASE("the programmatic column follows pdl_overlap unless it is given") {
  const LaunchSpec follows = gpu("{base: h200, launch: {pdl_overlap: 0.8 us}}").launch;
  CHECK(follows.gap.at(GapClass::ShortKernel, GapClass::Programmatic) == us(-0.8));
  CHECK(follows.gap.at(GapClass::Programmatic, GapClass::Programmatic) == us(-0.8));
  const LaunchSpec given = gpu("{base: h200, launch: {gap: {long_kernel: {programmatic: -0.4 us}}}}").launch;
  CHECK(given.gap.at(GapClass::LongKernel, GapClass::Programmatic) == us(-0.4));
}

TEST_CASE("tables of times are sorted by count, wherever an overlay adds points") {
  const LaunchSpec launch = gpu("{base: h200, launch: {min_period: {66: 1.35 us}}}").launch;
  CHECK(launch.min_period.points.size() == 4);
  CHECK(min_period(launch, 66) == us(1.35));
  CHECK(problems(launch).empty());
}

TEST_CASE("a device takes the launch section of another one, marked as transferred") {
  LaunchSpec expected = gpu("h200").launch;
  expected.transferred = true;
  CHECK(gpu("a100_80gb").launch == expected);
  expected.call = 6_us;
  CHECK(gpu("{base: a100_80gb, launch: {call: 6 us}}").launch == expected);
}

TEST_CASE("a chain of bases is followed to its end") {
  const Folder folder;
  folder.write("mine", "{base: theirs, sms: 7}");
  folder.write("theirs", "{base: h200, sms: 5, l2: 1 MiB}");
  const GpuSpec spec = folder.gpu("{base: mine, clock: 1 GHz}");
  CHECK(spec.sms == 7);
  CHECK(spec.l2 == 1_MiB);
  CHECK(spec.clock == Hertz(1e9));
  CHECK(spec.memory == gpu("h200").memory);
  CHECK(spec.key == "mine");
}

TEST_CASE("bases that lead in a circle, and chains too long, are refused") {
  const Folder folder;
  folder.write("a", "{base: b}");
  folder.write("b", "{base: a}");
  CHECK_THROWS_WITH(folder.gpu("a"), ContainsSubstring("'base' leads back to itself: a -> b -> a"));
  for (int i = 0; i < 12; ++i)
    folder.write("c" + std::to_string(i), "{base: c" + std::to_string(i + 1) + "}");
  CHECK_THROWS_WITH(folder.gpu("c0"), ContainsSubstring("base_depth_max"));
  folder.write("d", "{base: h200, launch: {base: e}}");
  folder.write("e", "{base: h200, launch: {base: d}}");
  CHECK_THROWS_WITH(folder.gpu("d"), ContainsSubstring("'base' leads back to itself: e -> d -> e"));
}

TEST_CASE("mistakes are located and several are reported at once") {
  const std::string text = mistake_in(
      "base: h200\n"
      "sms: 0\n"
      "memory: {bandwith: 4 TB/s, capacity: -1 GB}\n"
      "peak: {bf17: 1 TFLOP/s, bf16: 0 TFLOP/s}\n"
      "launch: {queue_depth: 0, gap: {short_kernl: 1 us}, min_period: {x: 1 us}}\n");
  CHECK_THAT(text, ContainsSubstring("test.yaml:2:6: error: sms: must be at least 1, not 0"));
  CHECK_THAT(text, ContainsSubstring("test.yaml:3:"));
  CHECK_THAT(text, ContainsSubstring("memory.bandwith"));
  CHECK_THAT(text, ContainsSubstring("memory.capacity: must be positive"));
  CHECK_THAT(text, ContainsSubstring("did you mean 'bf16'"));
  CHECK_THAT(text, ContainsSubstring("peak.bf16: must be positive"));
  CHECK_THAT(text, ContainsSubstring("launch.queue_depth: must be at least 1"));
  CHECK_THAT(text, ContainsSubstring("launch.gap.short_kernl: unknown class of op"));
  CHECK_THAT(text, ContainsSubstring("launch.min_period.x: 'x' is not a count"));
}

TEST_CASE("mistakes keep their path through bases") {
  const auto scenario = config::load_text(
      "hardware: {base: a100_80gb, launch: {call: -1 us}, copy: {latency: -1 us}}\n", "scenario.yaml");
  try {
    config::read_hardware(scenario.at("hardware"), search_in());
    FAIL("no error");
  } catch (const ConfigError& error) {
    CHECK_THAT(error.what(),
               ContainsSubstring("scenario.yaml:1:44: error: hardware.launch.call: must not be negative"));
    CHECK_THAT(error.what(), ContainsSubstring("hardware.copy.latency: must not be negative"));
  }
}

TEST_CASE("what cannot be is refused") {
  CHECK_THAT(mistake_in("h20"), ContainsSubstring("did you mean 'h200'"));
  CHECK_THAT(mistake_in("[h200]"), ContainsSubstring("a name or a map"));
  CHECK_THAT(mistake_in("{base: [h200]}"), ContainsSubstring("'base' is the name of another file"));
  CHECK_THAT(mistake_in("{base: h200, clock: 0 Hz}"), ContainsSubstring("clock: must be positive"));
  CHECK_THAT(mistake_in("{base: h200, vendor: intel}"), ContainsSubstring("vendor"));
  CHECK_THAT(mistake_in("{base: h200, peak: 1 TFLOP/s}"), ContainsSubstring("peak"));
  CHECK_THAT(mistake_in("{base: h200, launch: {call: 6}}"), ContainsSubstring("launch.call"));
  CHECK_THAT(mistake_in("{base: h200, launch: {gap: -1 us}}"), ContainsSubstring("must not be negative"));
  CHECK_THAT(mistake_in("{base: h200, launch: {gap: {memset: {memset: -1 us}}}}"),
             ContainsSubstring("must not be negative"));
  CHECK_THAT(mistake_in("{base: h200, launch: {min_period: {0: 1 us}}}"),
             ContainsSubstring("is not a count"));
  CHECK_THAT(mistake_in("{base: h200, launch: {min_period: {01: 1 us}}}"), ContainsSubstring("given twice"));
  CHECK_THAT(mistake_in("{sms: 4}"), ContainsSubstring("missing key 'launch'"));
  CHECK_THROWS_WITH(host("{base: xeon-h200-cloud, speed: 0}"), ContainsSubstring("speed: must be positive"));
  CHECK_THROWS_WITH(host("{ops: {mm: -1 us}}"), ContainsSubstring("ops.mm: must not be negative"));
}

TEST_CASE("a table of gaps of one's own names the rows and columns it lacks") {
  const std::string text = mistake_in(
      "{base: h200, sms: 1, launch: {call: 1 us, arrival_after_call: 1 us, graph_gap: 0 us, cuda_graph: "
      "{call: 1 us,"
      " arrival_after_call: 1 us}, gap: {kernel: {kernel: 1 us}}}}");
  CHECK(text.empty());  // Laid over the base's table, so nothing is missing.
  const Folder folder;
  folder.write(
      "bare",
      "{sms: 1, clock: 1 GHz, l2: 1 MiB, memory: {capacity: 1 GB, bandwidth: 1 TB/s}, peak: {fp32: 1 "
      "TFLOP/s},"
      " host_link: {h2d: 1 GB/s, d2h: 1 GB/s}, copy: {latency: 0 us, d2d: 1 TB/s}, launch: {call: 1 us,"
      " arrival_after_call: 1 us, graph_gap: 0 us, cuda_graph: {call: 1 us, arrival_after_call: 1 us},"
      " gap: {kernel: {kernel: 1 us}, memset: 1 us, memcpy: 1 us, cuda_graph: 1 us}}}");
  CHECK_THROWS_WITH(folder.gpu("bare"), ContainsSubstring("row 'short_kernel' lacks the column 'memset'"));
  CHECK_THROWS_WITH(folder.gpu("bare"), ContainsSubstring("missing row 'programmatic'"));
}

}  // namespace
}  // namespace gpusim
