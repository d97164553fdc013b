// SPDX-License-Identifier: Apache-2.0
// Collectives of a trace: what of them nothing hides, by kind and by step.
#include <nlohmann/json.hpp>
#include <string>

#include "sim/report/trace_report.hpp"
#include "sim/trace/communication.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using namespace literals;
using test::Approx;

std::string kernel(const std::string& name, int stream, int from, int length, int correlation,
                   const std::string& more = "") {
  return R"({"ph":"X","cat":"kernel","name":")" + name + R"(","pid":0,"tid":)" + std::to_string(stream) +
         R"(,"ts":)" + std::to_string(from) + R"(,"dur":)" + std::to_string(length) +
         R"(,"args":{"device":0,"stream":)" + std::to_string(stream) + R"(,"correlation":)" +
         std::to_string(correlation) + more + "}}";
}

std::string launch(int at, int correlation) {
  return R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernelExC","pid":1,"tid":1,"ts":)" +
         std::to_string(at) + R"(,"dur":2,"args":{"correlation":)" + std::to_string(correlation) + "}}";
}

std::string step(int number, int from, int length) {
  return R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)" + std::to_string(number) +
         R"(","pid":1,"tid":1,"ts":)" + std::to_string(from) + R"(,"dur":)" + std::to_string(length) + "}";
}

std::string all_reduce(int elements) {
  return R"(,"Collective name":"allreduce","In msg nelems":)" + std::to_string(elements) +
         R"(,"Out msg nelems":)" + std::to_string(elements) +
         R"(,"Group size":2,"dtype":"Float","Process Group Name":"0")";
}

constexpr const char* nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// Two steps of 1000 us. Stream 7 computes from 100 to 300 and from 350 to 400; stream 17 adds up from 250 to
/// 450: 50 us and 50 us are hidden, 50 and 50 are not. In the second step another one runs alone for 100 us.
Trace two_steps() {
  const std::string text = R"({"traceEvents":[)" + step(4, 0, 1000) + "," + step(5, 1000, 1000) + "," +
                           launch(90, 1) + "," + kernel("gemm", 7, 100, 200, 1) + "," + launch(95, 2) + "," +
                           kernel(nccl, 17, 250, 200, 2, all_reduce(1'000'000)) + "," + launch(98, 3) + "," +
                           kernel("gemm", 7, 350, 50, 3) + "," + launch(1090, 4) + "," +
                           kernel(nccl, 17, 1100, 100, 4, all_reduce(1'000'000)) + "]}";
  return read_trace_bytes(text);
}

TEST_CASE("A collective is exposed while nothing else runs, and hidden otherwise", "[communication]") {
  const TraceCommunications found = trace_communication(two_steps());
  REQUIRE(found.kinds.size() == 1);
  const TraceCommunication& kind = found.kinds[0];
  CHECK(kind.name == "allreduce");
  CHECK(kind.count == 2);
  CHECK(kind.total == 300_us);
  CHECK(kind.exposed == 200_us);  // 300 to 350, 400 to 450, and the second one
  CHECK(kind.hidden() == 100_us);
  CHECK(found.total == 300_us);
  CHECK(found.exposed == 200_us);
}

TEST_CASE("A collective belongs to the step that launched it", "[communication]") {
  const TraceCommunications found = trace_communication(two_steps());
  REQUIRE(found.steps.size() == 2);
  CHECK(found.steps[0].number == 4);
  CHECK(found.steps[0].count == 1);
  CHECK(found.steps[0].exposed == 100_us);
  CHECK(found.steps[1].total == 100_us);
  CHECK(found.steps[1].exposed == 100_us);
}

TEST_CASE("Bus bandwidth is that of the shortest kernel", "[communication]") {
  // 4 MB of fp32 over two ranks in 100 us: 2 x 1 / 2 x 4 MB / 100 us.
  CHECK(trace_communication(two_steps()).kinds.at(0).bus_bytes_per_second() == Approx(40e9));
}

TEST_CASE("A trace without collectives says nothing of them", "[communication]") {
  const Trace trace = read_trace_bytes(R"({"traceEvents":[)" + kernel("gemm", 7, 100, 200, 1) + "]}");
  const TraceCommunications found = trace_communication(trace);
  CHECK(found.kinds.empty());
  CHECK(report::trace_communication_text(found).empty());
}

TEST_CASE("The summary has collectives as text and as JSON", "[communication]") {
  const Trace trace = two_steps();
  const report::TraceAnalysis analysis(trace);
  CHECK_THAT(report::trace_summary_text(trace, analysis), test::ContainsSubstring("allreduce 4 MB Float x2"));
  const auto json = nlohmann::json::parse(report::trace_summary_json(trace, analysis));
  CHECK(json["communication"][0]["exposed_us"] == 200.0);
  CHECK(json["communication"][0]["bytes"] == 4'000'000);
  CHECK(json["communication_steps"][1]["number"] == 5);
}

}  // namespace
}  // namespace gpusim
