// SPDX-License-Identifier: Apache-2.0
// The critical path of random programs: whole, exact, and its slack means what it says.
#include "sim/critical_path/critical_path.hpp"

#include <algorithm>
#include <array>
#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/random_program.hpp"

namespace {

using gpusim::CriticalPath;
using gpusim::InfinitelyFast;
using gpusim::PathResource;
using gpusim::PathSegment;
using gpusim::Picoseconds;
using gpusim::test::random_program;
using gpusim::test::RandomProgram;
using gpusim::test::RandomProgramOptions;
using namespace gpusim::engine;

struct Explained {
  Timeline timeline;
  Run run;
  CriticalPath path;
};

Explained explain(const RandomProgram& random, std::int64_t steps) {
  Explained result;
  result.run = run(random.program, random.machine, steps, &result.timeline);
  result.path = gpusim::critical_path(random.program, random.machine, result.timeline);
  return result;
}

Picoseconds makespan(const RandomProgram& random, std::int64_t steps = 1) {
  return run(random.program, random.machine, steps).totals.wall;
}

void require_whole(const Explained& e) {
  REQUIRE(e.path.makespan == e.run.totals.wall);
  Picoseconds at{0};
  std::array<Picoseconds, gpusim::path_resource_count> sums{};
  for (const PathSegment& segment : e.path.segments) {
    REQUIRE(segment.from == at);
    REQUIRE(segment.to > segment.from);
    REQUIRE((segment.op == no_index) != (segment.call == no_index));
    at = segment.to;
    sums[static_cast<std::size_t>(segment.resource)] += segment.duration();
  }
  REQUIRE(at == e.path.makespan);
  REQUIRE(sums == e.path.by_resource);
  Picoseconds sum{0};
  for (const Picoseconds part : sums) sum += part;
  REQUIRE(sum == e.path.makespan);
}

void require_slack(const Explained& e) {
  REQUIRE(e.path.op_slack.size() == e.timeline.ops.size());
  for (const Picoseconds slack : e.path.op_slack) REQUIRE(slack >= Picoseconds(0));
  for (const Picoseconds slack : e.path.call_slack) REQUIRE(slack >= Picoseconds(0));
  for (const PathSegment& segment : e.path.segments) {
    const bool runs = segment.resource == PathResource::Kernel || segment.resource == PathResource::Copy;
    if (runs) REQUIRE(e.path.op_slack[segment.op] == Picoseconds(0));
    if (segment.resource == PathResource::Input || segment.resource == PathResource::Synchronization)
      REQUIRE(e.path.call_slack[segment.call] == Picoseconds(0));
  }
}

/// Makes nodes of CUDA graphs record and wait for the event of a thread, and some copies peer copies.
void add_what_is_rare(RandomProgram& random, std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  Program& p = random.program;
  for (GpuOp& op : p.ops)
    if (op.copy_engine == CopyEngine::DeviceToHost && dice() % 2 == 0) {
      op.copy_engine = CopyEngine::Peer;
      op.peer = static_cast<std::uint8_t>(dice() % 2);
    }
  for (std::size_t s = 0; s < p.streams.size(); ++s) p.streams[s].device = static_cast<int>(dice() % 2);
  if (p.threads.size() > 1) return;
  // What nobody records would be waited for for ever.
  const bool is_recorded =
      std::any_of(p.threads[0].instructions.begin(), p.threads[0].instructions.end(),
                  [](const Instruction& in) { return in.call == Call::Record && in.object == 0; });
  for (CudaGraph& graph : p.graphs) {
    const bool records = !is_recorded || dice() % 2 == 0;
    for (CudaGraph::Node& node : graph.nodes) {
      if (dice() % 4 != 0) continue;
      node.kind = records ? CudaGraph::NodeKind::Record : CudaGraph::NodeKind::Wait;
      node.op = 0;
    }
  }
}

/// Lets the kernels share a device of few SMs.
void share_devices(RandomProgram& random, std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  Program& p = random.program;
  random.machine.sharing.sms = 4;
  random.machine.sharing.bandwidth_top = 1e12;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    if (p.ops[i].kind != OpKind::Kernel) continue;
    Footprint footprint;
    footprint.blocks = static_cast<std::int64_t>(1 + dice() % 64);
    footprint.threads_per_block = static_cast<std::int32_t>(128 << (dice() % 4));
    footprint.bytes = static_cast<std::int64_t>(dice() % 4'000'000);
    footprint.arithmetic = static_cast<double>(dice() % 100) / 100;
    p.info[i].footprint = static_cast<Index>(p.footprints.size());
    p.footprints.push_back(footprint);
  }
}

/// One thread and no copies: nothing depends on which of two things comes first.
RandomProgram with_fixed_order(std::uint64_t seed) {
  return random_program(seed, {.copies = false, .graphs_shared = false, .threads_max = 1});
}

/// Every launch gets ops of its own, so that one execution can be changed alone.
void launch_everything_once(Program& p) {
  const auto copy_of_op = [&](Index op) { return p.add(GpuOp(p.ops[op]), OpInfo(p.info[op])); };
  for (HostThread& thread : p.threads)
    for (Instruction& in : thread.instructions) {
      if (in.call == Call::Launch) in.object = copy_of_op(in.object);
      if (in.call != Call::LaunchGraph) continue;
      CudaGraph graph = p.graphs[in.object];
      for (CudaGraph::Node& node : graph.nodes) node.op = copy_of_op(node.op);
      in.object = static_cast<Index>(p.graphs.size());
      p.graphs.push_back(graph);
    }
}

constexpr Picoseconds one_microsecond{1'000'000};

}  // namespace

TEST_CASE("The path explains every moment of a run, and each by a rule of the engine",
          "[critical_path][property]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomProgramOptions options;
    options.distributions = seed % 5 == 0;
    const std::int64_t steps = 1 + static_cast<std::int64_t>(seed % 4 == 3 ? 20 : seed % 4);
    RandomProgram random = random_program(seed, options);
    INFO("seed " << seed << ", " << steps << " steps");
    const Explained e = explain(random, steps);
    require_whole(e);
    require_slack(e);
    CHECK(e.path.contradictions == 0);
    CHECK(e.path.unexplained == Picoseconds(0));
    CHECK(e.path.of(PathResource::Sharing) == Picoseconds(0));
  }
}

TEST_CASE("Events inside CUDA graphs and peer copies are explained too", "[critical_path][property]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomProgram random = random_program(
        seed, {.share_streams = false, .graphs_shared = false, .threads_max = seed % 2 == 0 ? 1 : 3});
    add_what_is_rare(random, seed);
    INFO("seed " << seed);
    const Explained e = explain(random, 2);
    require_whole(e);
    require_slack(e);
    CHECK(e.path.contradictions == 0);
    CHECK(e.path.unexplained == Picoseconds(0));
  }
}

TEST_CASE("With kernels that share a device the path is whole all the same", "[critical_path][property]") {
  Picoseconds sharing{0};
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const bool rare = seed % 3 == 0;
    RandomProgram random = random_program(
        seed, {.share_streams = !rare, .distributions = seed % 5 == 0, .graphs_shared = !rare});
    if (rare) add_what_is_rare(random, seed);
    share_devices(random, seed);
    INFO("seed " << seed);
    const Explained e = explain(random, 2);
    require_whole(e);
    require_slack(e);
    sharing += e.path.of(PathResource::Sharing);
  }
  CHECK(sharing > Picoseconds(0));
}

TEST_CASE("An op may take longer by its slack, and by no more", "[critical_path][property]") {
  int ops = 0;
  int with_slack = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    RandomProgram random = with_fixed_order(seed);
    launch_everything_once(random.program);
    const Explained e = explain(random, 1);
    for (std::size_t i = 0; i < e.timeline.ops.size(); ++i) {
      const Picoseconds slack = e.path.op_slack[i];
      INFO("seed " << seed << ", op " << i << ", slack " << slack.count() << " ps");
      ++ops;
      if (slack > Picoseconds(0)) ++with_slack;
      GpuOp& op = random.program.ops[op_of(random.program, e.timeline, e.timeline.ops[i])];
      const Picoseconds duration = op.duration;
      op.duration = duration + slack;
      REQUIRE(makespan(random) == e.path.makespan);
      op.duration = duration + slack + one_microsecond;
      REQUIRE(makespan(random) > e.path.makespan);
      op.duration = duration;
    }
  }
  CHECK(ops > 5000);
  CHECK(with_slack > 1000);
}

TEST_CASE("Host work may take longer by its slack, and by no more", "[critical_path][property]") {
  int calls = 0;
  int with_slack = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    RandomProgram random = with_fixed_order(seed);
    const Explained e = explain(random, 1);
    for (const Index number : e.timeline.calls_in_order()) {
      const CallRecord call = e.timeline.call(number);
      Instruction& in = random.program.threads[0].instructions[call.instruction];
      if (in.call != Call::Work && in.call != Call::Input) continue;
      const Picoseconds slack = e.path.call_slack[number];
      INFO("seed " << seed << ", call " << call.instruction << ", slack " << slack.count() << " ps");
      ++calls;
      if (slack > Picoseconds(0)) ++with_slack;
      const Picoseconds duration = in.duration;
      in.duration = duration + slack;
      REQUIRE(makespan(random) == e.path.makespan);
      in.duration = duration + slack + one_microsecond;
      REQUIRE(makespan(random) > e.path.makespan);
      in.duration = duration;
    }
  }
  CHECK(calls > 1000);
  CHECK(with_slack > 200);
}

TEST_CASE("Where order is fixed the longest path without a resource is what a new simulation gives",
          "[critical_path][property]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const RandomProgram random = with_fixed_order(seed);
    const std::int64_t steps = 1 + static_cast<std::int64_t>(seed % 3);
    const Explained e = explain(random, steps);
    for (const gpusim::Counterfactual& c :
         counterfactuals(random.program, random.machine, e.timeline, e.path)) {
      INFO("seed " << seed << ", infinitely fast " << gpusim::name(c.what));
      REQUIRE(c.makespan.has_value());
      REQUIRE(*c.makespan == c.order_kept);
      REQUIRE(*c.makespan <= e.path.makespan);
    }
  }
}
