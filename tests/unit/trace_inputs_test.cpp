// SPDX-License-Identifier: Apache-2.0
// Shapes of ops, and what else a trace may say of an event beyond its times.
#include <string>
#include <vector>

#include "sim/trace/trace.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/trace_text.hpp"

using namespace gpusim;
using gpusim::test::gpu_op;
using gpusim::test::trace_text;

namespace {

using Shape = std::vector<std::int64_t>;

std::string cpu_op(const std::string& name, const std::string& ts, const std::string& args) {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name + R"(","pid":1,"tid":1,"ts":)" + ts +
         R"(,"dur":1,"args":{)" + args + "}}";
}

}  // namespace

TEST_CASE("Shapes, strides, types and values of an op's inputs are read") {
  const Trace trace = read_trace_bytes(trace_text({cpu_op(
      "aten::addmm", "1",
      R"("External id": 49, "Concrete Inputs": ["", "", "1.5", "[2, 3]", ""], "Input type": ["float", "float",
         "Scalar", "ScalarList", "TensorList"], "Input Strides": [[1], [], [], [], [[4, 1], [1]]],
         "Input Dims": [[512 ], [], [], [], [ [3, 4],[7] ]])")}));
  REQUIRE(trace.cpu_ops.size() == 1);
  CHECK(trace.cpu_ops[0].external_id == 49);
  CHECK(trace.cpu_ops[0].sequence == -1);
  REQUIRE(trace.cpu_ops[0].inputs == 0);
  const std::vector<TraceInput>& inputs = trace.inputs[0];
  REQUIRE(inputs.size() == 5);
  CHECK(inputs[0] == TraceInput{"float", {{512}}, {{1}}, ""});
  CHECK(inputs[1] == TraceInput{"float", {Shape{}}, {}, ""});
  CHECK(inputs[2] == TraceInput{"Scalar", {}, {}, "1.5"});
  CHECK(inputs[3] == TraceInput{"ScalarList", {}, {}, "[2, 3]"});
  CHECK(inputs[4] == TraceInput{"TensorList", {{3, 4}, {7}}, {{4, 1}, {1}}, ""});
}

TEST_CASE("Ops with equal inputs share one entry, ops without any have none") {
  const std::string shapes = R"("Input Dims": [[2, 3]], "Input type": ["float"])";
  const Trace trace = read_trace_bytes(trace_text(
      {cpu_op("a", "1", shapes), cpu_op("b", "2", R"("Sequence number": 7, "Fwd thread id": 2)"),
       cpu_op("c", "3", R"("Input Dims": [[2, 4]], "Input type": ["float"])"), cpu_op("d", "4", shapes)}));
  REQUIRE(trace.cpu_ops.size() == 4);
  CHECK(trace.cpu_ops[0].inputs == 0);
  CHECK(trace.cpu_ops[1].inputs == trace_none);
  CHECK(trace.cpu_ops[1].sequence == 7);
  CHECK(trace.cpu_ops[1].forward_thread == 2);
  CHECK(trace.cpu_ops[2].inputs == 1);
  CHECK(trace.cpu_ops[3].inputs == 0);
  CHECK(trace.inputs.size() == 2);
}

TEST_CASE("Shapes that are none are not stated, and cost no other input its own") {
  const Trace trace = read_trace_bytes(trace_text({cpu_op(
      "a", "1", R"("Input Dims": [[-1], [1e3], ["x"], [[2], 3], 5, null, [2]], "Input type": "float")")}));
  REQUIRE(trace.inputs.size() == 1);
  REQUIRE(trace.inputs[0].size() == 7);
  for (std::size_t i = 0; i < 6; ++i) CHECK(trace.inputs[0][i].shapes.empty());
  CHECK(trace.inputs[0][6].shapes == std::vector<Shape>{{2}});
}

TEST_CASE("A collective says what it moves, and the trace which rank it is of") {
  const std::string kernel =
      gpu_op({.cat = "kernel",
              .name = "ncclDevKernel_AllReduce",
              .ts = "1",
              .dur = "2",
              .more =
                  R"(,"External id": 9, "est. achieved occupancy %": 27, "Collective name": "allreduce",
           "In msg nelems": 100, "Out msg nelems": 200, "Group size": 2, "dtype": "Float",
           "Process Group Name": "0")"});
  std::string text =
      trace_text({kernel, kernel, gpu_op({.cat = "kernel", .name = "k", .ts = "9", .dur = "1"})});
  text.pop_back();
  text += R"(, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"a": 1}]}})";
  const Trace trace = read_trace_bytes(text);
  REQUIRE(trace.ops.size() == 3);
  CHECK(trace.ops[0].external_id == 9);
  CHECK(trace.ops[0].occupancy_percent == 27);
  CHECK(trace.ops[0].collective == 0);
  CHECK(trace.ops[1].collective == 0);
  CHECK(trace.ops[2].collective == trace_none);
  CHECK(trace.ops[2].occupancy_percent == -1);
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives[0] == TraceCollective{"allreduce", "Float", "0", 100, 200, 2});
  CHECK(trace.rank == 3);
  CHECK(trace.world_size == 8);
}
