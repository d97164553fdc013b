// SPDX-License-Identifier: Apache-2.0
// The engine against a second reading of its semantics: the longest path through the graph of what must come
// before what. Without shared copy engines, shared streams and full queues the two are equal; with full
// queues the path is a lower bound.
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#include <map>

#include "tests/support/catch.hpp"
#include "tests/support/random_program.hpp"

namespace {

using gpusim::Picoseconds;
using gpusim::test::random_program;
using gpusim::test::RandomProgram;
using namespace gpusim::engine;

/// Moments and least distances between them.
class Moments {
 public:
  using Moment = std::size_t;
  Moment add() { return boost::add_vertex(graph_); }
  void after(Moment later, Moment earlier, Picoseconds distance = Picoseconds(0)) {
    boost::add_edge(earlier, later, Distance{distance}, graph_);
  }
  /// The earliest time of every moment: the longest path to it from any moment at 0.
  std::vector<Picoseconds> earliest() const {
    std::vector<Moment> order;
    boost::topological_sort(graph_, std::back_inserter(order));  // throws if there is a cycle
    std::vector<Picoseconds> time(boost::num_vertices(graph_), Picoseconds(0));
    for (auto at = order.rbegin(); at != order.rend(); ++at)
      for (auto [edge, end] = boost::out_edges(*at, graph_); edge != end; ++edge) {
        Picoseconds& later = time[boost::target(*edge, graph_)];
        later = std::max(later, time[*at] + graph_[*edge].distance);
      }
    return time;
  }

 private:
  struct Distance {
    Picoseconds distance;
  };
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Distance> graph_;
};

struct StreamChain {
  bool has_last = false;
  GapClass last_class = 0;
  Picoseconds last_min_period{0};
  Moments::Moment last_start = 0, last_end = 0, all_end = 0;
  std::vector<std::pair<Moments::Moment, Picoseconds>> barriers;  ///< What every later op must come after.
};

/// The makespan by longest path.
Picoseconds longest_path(const RandomProgram& random, std::int64_t steps) {
  const Program& p = random.program;
  const Machine& m = random.machine;
  Moments moments;
  std::vector<Moments::Moment> completions;  // of calls and ops: what a makespan is made of
  std::vector<StreamChain> streams(p.streams.size());
  for (StreamChain& stream : streams) stream.all_end = moments.add();
  std::map<Index, Moments::Moment> fired;                   // latest record by event
  std::map<Index, std::vector<Moments::Moment>> signalled;  // by signal, in order
  std::map<Index, std::size_t> awaited;

  // Events, streams and signals of random programs without shared streams couple a thread to itself and to
  // lower threads only, so thread by thread is an order in which everything referred to exists.
  for (const HostThread& thread : p.threads) {
    Moments::Moment now = moments.add();
    std::vector<std::pair<std::uint16_t, Moments::Moment>> attached;
    for (std::int64_t step = 0; step < steps; ++step)
      for (const Instruction& in : thread.instructions) {
        StreamChain& stream = streams[in.stream];
        const Moments::Moment end = moments.add();
        moments.after(end, now, in.duration);
        const auto completes_after = [&](Moments::Moment completion) {
          // Random programs have return_latency <= duration, so a completion before the call adds nothing.
          moments.after(end, completion, in.return_latency);
        };
        switch (in.call) {
          case Call::Record: {
            const Moments::Moment fire = moments.add();
            moments.after(fire, now, in.latency);
            moments.after(fire, stream.all_end);
            stream.all_end = fire;
            fired[in.object] = fire;
            break;
          }
          case Call::StreamWait: {
            if (!fired.count(in.object)) break;
            if (in.attached) {
              attached.emplace_back(in.stream, fired[in.object]);
              break;
            }
            const Moments::Moment taken = moments.add(), passed = moments.add();
            moments.after(taken, now, in.latency);
            moments.after(taken, stream.all_end);
            moments.after(passed, taken);
            moments.after(passed, fired[in.object]);
            stream.all_end = passed;
            stream.barriers.emplace_back(fired[in.object], m.event_latency);
            stream.barriers.emplace_back(taken, Picoseconds(0));
            break;
          }
          case Call::Launch:
          case Call::LaunchGraph: {
            const Moments::Moment start = moments.add();
            moments.after(start, now, in.latency);
            for (const auto& [stream_of_wait, fire] : attached)
              if (stream_of_wait == in.stream) stream.barriers.emplace_back(fire, m.event_latency);
            std::erase_if(attached, [&](const auto& wait) { return wait.first == in.stream; });
            for (const auto& [moment, distance] : stream.barriers) moments.after(start, moment, distance);
            const bool graph = in.call == Call::LaunchGraph;
            const GapClass gap_class = graph ? m.graph_class : p.ops[in.object].gap_class;
            if (stream.has_last) {
              const Index first = graph ? p.graphs[in.object].nodes.front().op : in.object;
              const Picoseconds own = p.ops[first].gap_before;
              moments.after(start, stream.last_end,
                            own == gap_from_table ? m.gap[stream.last_class][gap_class] : own);
              moments.after(start, stream.last_start, stream.last_min_period);
            }
            std::vector<std::pair<Moments::Moment, const GpuOp*>> nodes;  // ends, in order
            std::vector<Moments::Moment> starts;
            if (graph) {
              for (const CudaGraph::Node& node : p.graphs[in.object].nodes) {
                const GpuOp& op = p.ops[node.op];
                const Moments::Moment node_start = moments.add(), node_end = moments.add();
                moments.after(node_start, start);
                for (const Index before : node.after) {
                  const GpuOp& previous = *nodes[before].second;
                  moments.after(node_start, nodes[before].first,
                                op.gap_before == gap_from_table
                                    ? m.graph_gap[previous.gap_class][op.gap_class]
                                    : op.gap_before);
                  moments.after(node_start, starts[before],
                                p.info[p.graphs[in.object].nodes[before].op].min_period_in_graph);
                }
                moments.after(node_end, node_start, op.duration);
                starts.push_back(node_start);
                nodes.emplace_back(node_end, &op);
              }
            } else {
              const Moments::Moment op_end = moments.add();
              moments.after(op_end, start, p.ops[in.object].duration);
              nodes.emplace_back(op_end, &p.ops[in.object]);
            }
            const Moments::Moment last_end = moments.add(), all_end = moments.add();
            if (stream.has_last) moments.after(last_end, stream.last_end);
            moments.after(all_end, stream.all_end);
            for (const auto& [node_end, op] : nodes) {
              moments.after(last_end, node_end);
              moments.after(all_end, node_end);
              completions.push_back(node_end);
            }
            stream.has_last = true;
            stream.last_class = gap_class;
            stream.last_min_period = graph ? Picoseconds(0) : p.ops[in.object].min_period;
            stream.last_start = start;
            stream.last_end = last_end;
            stream.all_end = all_end;
            if (in.blocking) completes_after(all_end);
            break;
          }
          case Call::SynchronizeStream:
            completes_after(stream.all_end);
            break;
          case Call::SynchronizeEvent:
            if (fired.count(in.object)) completes_after(fired[in.object]);
            break;
          case Call::Signal:
            signalled[in.object].push_back(end);
            break;
          case Call::Await:
            moments.after(end, signalled[in.object].at(awaited[in.object]++));
            break;
          case Call::SynchronizeDevice:
            for (const StreamChain& other : streams) completes_after(other.all_end);
            break;
          default:
            break;
        }
        completions.push_back(end);
        now = end;
      }
  }
  const std::vector<Picoseconds> earliest = moments.earliest();
  Picoseconds makespan{0};
  for (const Moments::Moment moment : completions) makespan = std::max(makespan, earliest[moment]);
  return makespan;
}

/// A device-wide synchronisation of one thread sees what others have launched by then: that depends on the
/// order in time, which a path does not have.
void without_device_synchronization(RandomProgram& random) {
  if (random.program.threads.size() == 1) return;
  for (HostThread& thread : random.program.threads)
    for (Instruction& in : thread.instructions)
      if (in.call == Call::SynchronizeDevice) in.call = Call::SynchronizeStream;
}

}  // namespace

TEST_CASE("With room in the queues the makespan is the longest path of dependencies", "[engine][property]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomProgram random = random_program(seed, {.share_streams = false, .copies = false, .graphs_shared = false});
    without_device_synchronization(random);
    random.machine.launch_queue_depth = 1 << 20;
    const std::int64_t steps = 1 + static_cast<std::int64_t>(seed % 3);
    INFO("seed " << seed);
    REQUIRE(gpusim::engine::run(random.program, random.machine, steps).totals.wall ==
            longest_path(random, steps));
  }
}

TEST_CASE("With short queues and shared copy engines the longest path is a lower bound",
          "[engine][property]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomProgram random = random_program(seed, {.share_streams = false, .copies = true, .graphs_shared = false});
    without_device_synchronization(random);
    INFO("seed " << seed);
    random.machine.launch_queue_depth = 1 + static_cast<std::int32_t>(seed % 4);
    REQUIRE(longest_path(random, 2) <= gpusim::engine::run(random.program, random.machine, 2).totals.wall);
  }
}
