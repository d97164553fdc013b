// SPDX-License-Identifier: Apache-2.0
// Figures and rules about launches, queues and utilisation, against hand arithmetic and the engine.
#include <cmath>
#include <random>

#include "models/cost/launch_formulas.hpp"
#include "sim/engine/engine.hpp"
#include "tests/formula/programs.hpp"
#include "tests/support/catch.hpp"

namespace gpusim::test {
namespace {

engine::Run isolated(const engine::Program& program) {
  return engine::run(program, ideal_machine());
}

/// Idle time after the first kernel has started.
Picoseconds waits(const Durations& kernels, Picoseconds launch) {
  return isolated(eager_program(kernels, launch)).window.idle_total();
}

TEST_CASE("S0-03: an eager operation costs several microseconds of launch, whatever the launch is set to") {
  // A claim: the launch is a parameter; the chapter goes on with 6 us.
  for (const Picoseconds launch : {2_us, 6_us, 10_us}) {
    const engine::Run run = isolated(eager_program(repeated(1, 1_us), launch));
    CHECK(run.totals.wall == launch + 1_us);
  }
}

TEST_CASE("S0-16: a decode step of hundreds of tiny kernels is as long as its launches") {
  // A claim; hundreds are taken as 100 to 900.
  for (std::int64_t n = 100; n <= 900; n += 200) {
    const engine::Run run = isolated(eager_program(repeated(n, 2_us), 6_us));
    CHECK(run.totals.counts.kernels == n);
    CHECK(run.totals.wall == n * 6_us + 2_us);
  }
}

TEST_CASE("S0-17: 300 kernels of 3 us behind 6 us launches keep the GPU busy 49.92 % of the step") {
  const double mean_3 = utilization(isolated(eager_program(repeated(300, 3_us), 6_us)).totals);
  CHECK(mean_3 == Approx(900.0 / 1803).epsilon(1e-12));
  CHECK(reproduces(mean_3, {0.50, 0.01}));  // stated: about half the time
  CHECK(equal_kernel_utilization(300, 3_us, 6_us) == Approx(mean_3).epsilon(1e-12));
  // The range of the text, 1 to 5 us.
  CHECK(
      reproduces(utilization(isolated(eager_program(repeated(300, 1_us), 6_us)).totals), {0.1666, 0.00005}));
  CHECK(
      reproduces(utilization(isolated(eager_program(repeated(300, 5_us), 6_us)).totals), {0.8310, 0.00005}));
}

TEST_CASE(
    "S0-18: with every kernel at most as long as a launch, 300 launches of 6 us set the step, 1801 to 1805 "
    "us") {
  std::mt19937 random(18);
  for (int round = 0; round < 50; ++round) {
    Durations kernels(300);
    for (Picoseconds& duration : kernels) duration = 1_us + Picoseconds(random() % 4'000'001);
    const engine::Run run = isolated(eager_program(kernels, 6_us));
    CHECK(run.totals.wall == 300 * 6_us + kernels.back());
    CHECK(run.totals.wall >= 1801_us);
    CHECK(run.totals.wall <= 1805_us);
  }
}

TEST_CASE("S0-19: one CUDA graph in place of 300 launches takes 906 us, 99.34 % busy, 1.990 times faster") {
  const engine::Run eager = isolated(eager_program(repeated(300, 3_us), 6_us));
  const engine::Run graph = isolated(graph_program(repeated(300, 3_us), 6_us));
  CHECK(graph.totals.wall == 906_us);
  CHECK(reproduces(utilization(graph.totals), {0.9934, 0.00005}));
  CHECK(reproduces(seconds(eager.totals.wall) / seconds(graph.totals.wall), {1.990, 0.0005}));
  CHECK(eager.totals.counts.kernel_launches == 300);
  CHECK(graph.totals.counts.kernel_launches == 0);
  CHECK(graph.totals.counts.cuda_graph_launches == 1);
  CHECK(graph.totals.busy == eager.totals.busy);  // the GPU's work is unchanged
  CHECK(eager.totals.host_work == 1800_us);
  CHECK(graph.totals.host_work == 6_us);
}

TEST_CASE("S1-02: an eager call costs dispatch, launch and memory round trip, which add up to the step") {
  const Picoseconds dispatch = 4_us;
  const Picoseconds launch = 6_us;
  const Picoseconds round_trip = transfer_time(128_MiB, BytesPerSecond(3.35e12));
  ProgramBuilder one_call;
  one_call.work(dispatch).launch(round_trip, launch);
  const engine::Run run = isolated(one_call);
  CHECK(run.totals.wall == dispatch + launch + round_trip);
  CHECK(run.totals.busy == round_trip);
  CHECK(run.totals.host_work == dispatch + launch);
}

TEST_CASE(
    "S1-03: at a few to tens of microseconds a launch, 100 short kernels take as long as their launches") {
  for (const std::int64_t us : {3, 10, 30, 90}) {  // a claim: checked over its range
    CHECK(isolated(eager_program(repeated(100, 1_us), us * 1_us)).totals.wall == 100 * us * 1_us + 1_us);
  }
}

TEST_CASE("S1-14: at launches of 5 to 20 us a kernel has to last 5 to 20 us to hide them") {
  for (const std::int64_t us : {5, 8, 20}) {  // a claim: checked over its range
    CHECK(min_kernel_duration(us * 1_us) == us * 1_us);
    CHECK(waits(repeated(50, us * 1_us), us * 1_us) == 0_us);
    CHECK(waits(repeated(50, us * 1_us - 1_ns), us * 1_us) == 49_ns);
  }
}

TEST_CASE("S1-16: one replay takes the place of N launches") {
  for (const std::int64_t n : {1, 7, 140, 900}) {
    const engine::Run eager = isolated(eager_program(repeated(n, 1_us), 8_us));
    const engine::Run graph = isolated(graph_program(repeated(n, 1_us), 8_us));
    CHECK(eager.totals.counts.kernel_launches == n);
    CHECK(graph.totals.counts.kernel_launches + graph.totals.counts.cuda_graph_launches == 1);
    CHECK(graph.totals.counts.kernels == n);
  }
}

TEST_CASE("S1-31: a loss read every 10 of 100 steps makes 10 host synchronisations") {
  ProgramBuilder ten_steps;
  for (int i = 0; i < 10; ++i) ten_steps.launch(20_us, 6_us);
  ten_steps.synchronize();
  const engine::Run run = engine::run(ten_steps, ideal_machine(), 10);
  CHECK(run.totals.counts.kernels == 100);
  CHECK(run.totals.counts.synchronizations == 10);
}

TEST_CASE(
    "S1-38: 140 kernels of 1 us behind 8 us launches: 1121 us eager, 148 us as a CUDA graph, 7.574 times "
    "faster") {
  const engine::Run eager = isolated(eager_program(repeated(140, 1_us), 8_us));
  const engine::Run graph = isolated(graph_program(repeated(140, 1_us), 8_us));
  CHECK(eager.totals.wall == 1121_us);
  CHECK(graph.totals.wall == 148_us);
  CHECK(reproduces(seconds(eager.totals.wall) / seconds(graph.totals.wall), {7.574, 0.0005}));
}

TEST_CASE("D1-3: the exercise's GPU is busy 12.49 % eager and 94.59 % in the CUDA graph") {
  const engine::Run eager = isolated(eager_program(repeated(140, 1_us), 8_us));
  const engine::Run graph = isolated(graph_program(repeated(140, 1_us), 8_us));
  CHECK(reproduces(utilization(eager.totals), {0.1249, 0.00005}));
  CHECK(reproduces(utilization(graph.totals), {0.9459, 0.00005}));
  // The plain quotient of launches leaves out the last kernel: 1120 / 148.
  CHECK(reproduces(1120.0 / 148, {7.5676, 0.00005}));
}

TEST_CASE("S4-01: at 5 us of CPU a launch, a kernel of less than 5 us is launch-bound") {
  CHECK(waits(repeated(100, 4_us), 5_us) == 99 * 1_us);
  CHECK(waits(repeated(100, 5_us), 5_us) == 0_us);
}

TEST_CASE(
    "S4-03: 80 launches in each of 80 layers take 32 ms, which the stated eager step of 18.82 ms does not "
    "allow") {
  const engine::Run eager = isolated(eager_program(repeated(80 * 80, 1_us), 5_us));
  CHECK(eager.totals.counts.kernel_launches == 6400);
  CHECK(eager.totals.wall == 32_ms + 1_us);
  const double stated_step = 32 / (850.0 * 2);  // batch 32 at 850 tok/s/GPU on two GPUs, in seconds
  CHECK(reproduces(stated_step * 1e3, {18.82, 0.005}));
  CHECK_FALSE(seconds(eager.totals.wall) <= stated_step);
}

TEST_CASE("S4-112: 480 launches of 5 us are 2.4 ms a step, 2395 us with the one CUDA-graph launch paid") {
  CHECK(launch_time_saved(480, 5_us, 0, 5_us) == 2400_us);
  CHECK(launch_time_saved(480, 5_us, 1, 5_us) == 2395_us);
  const engine::Run eager = isolated(eager_program(repeated(480, 1_us), 5_us));
  const engine::Run graph = isolated(graph_program(repeated(480, 1_us), 5_us));
  CHECK(eager.totals.host_work - graph.totals.host_work == 2395_us);
  CHECK(480 / 80 == 6);  // per layer, where the introduction has 80
}

/// n = 1000 equal kernels of the least length that hides the launches, and of 0.9 of it.
void check_min_kernel(Picoseconds launch) {
  const Picoseconds least = min_kernel_duration(launch);
  CHECK(least == launch);
  const Picoseconds shorter = least * 9 / 10;
  CHECK(reproduces(equal_kernel_utilization(1000, least, launch), {0.999001, 0.5e-6}));
  CHECK(reproduces(equal_kernel_utilization(1000, shorter, launch), {0.899191, 0.5e-6}));
  CHECK(reproduces(utilization(isolated(eager_program(repeated(1000, least), launch)).totals),
                   {0.999001, 0.5e-6}));
  CHECK(reproduces(utilization(isolated(eager_program(repeated(1000, shorter), launch)).totals),
                   {0.899191, 0.5e-6}));
  // A sweep around it: the least of these durations without a wait is the one named.
  Picoseconds first_without_wait{-1};
  for (Picoseconds d = launch / 2; d <= launch * 3 / 2; d += launch / 20) {
    const Picoseconds waited = waits(repeated(100, d), launch);
    CHECK(waited == 99 * equal_kernel_wait(d, launch));
    if (waited == 0_us && first_without_wait < 0_us) first_without_wait = d;
  }
  CHECK(first_without_wait == least);
}

TEST_CASE("M5: launches of 5 us are hidden from kernels of 5 us on, and 4.5 us are busy 89.9191 %") {
  check_min_kernel(5_us);
}
TEST_CASE("M6: launches of 6 us are hidden from kernels of 6 us on, and 5.4 us are busy 89.9191 %") {
  check_min_kernel(6_us);
}
TEST_CASE("M8: launches of 8 us are hidden from kernels of 8 us on, and 7.2 us are busy 89.9191 %") {
  check_min_kernel(8_us);
}
TEST_CASE("M20: launches of 20 us are hidden from kernels of 20 us on, and 18 us are busy 89.9191 %") {
  check_min_kernel(20_us);
}
TEST_CASE("M0: free launches need no hiding") {
  CHECK(min_kernel_duration(0_us) == 0_us);
  CHECK(waits(repeated(100, 1_ps), 0_us) == 0_us);
}

TEST_CASE("R-01: a chain of k operations in eager mode is k kernels and 2 k passes over the tensor") {
  const std::int64_t pass = (128_MiB).value();
  for (const std::int64_t k : {1, 3, 64}) {
    ProgramBuilder chain;
    chain.launch_all(repeated(k, 80_us), 6_us);
    for (engine::OpInfo& info : chain.program().info) info.bytes = 2 * pass;  // reads its input, writes its output
    CHECK(isolated(chain).totals.counts.kernels == k);
    std::int64_t bytes = 0;
    for (const engine::OpInfo& info : chain.program().info) bytes += info.bytes;
    CHECK(bytes == 2 * k * pass);
  }
}

TEST_CASE("R-02: of an eager call's three costs the first two are CPU time and the third is GPU time") {
  ProgramBuilder tiny;
  tiny.work(7_us).launch(2_us, 5_us);
  const engine::Run run = isolated(tiny);
  CHECK(run.totals.host_work == 12_us);
  CHECK(run.totals.busy == 2_us);
  CHECK(idle(run.totals, engine::IdleCause::Dispatch) == 12_us);
  CHECK(run.totals.wall == 14_us);
}

TEST_CASE(
    "R-04: behind long kernels the CPU runs ahead, behind short ones the GPU drains the queue and idles") {
  const engine::Run long_kernels = isolated(eager_program(repeated(100, 12_us), 6_us));
  const engine::Run short_kernels = isolated(eager_program(repeated(100, 3_us), 6_us));
  CHECK(long_kernels.queue_length_max >= 49);
  CHECK(long_kernels.window.idle_total() == 0_us);
  CHECK(short_kernels.queue_length_max <= 1);
  CHECK(short_kernels.window.idle_total() == 99 * 3_us);
  double previous = 0;
  for (Picoseconds d = 1_us; d <= 6_us; d += 1_us) {
    const double now =
        utilization(engine::run_steady(eager_program(repeated(100, d), 6_us), ideal_machine()).period);
    CHECK(now > previous);
    CHECK(now == Approx(seconds(d) / 6e-6).epsilon(1e-9));
    previous = now;
  }
  CHECK(previous == 1);
}

TEST_CASE(
    "R-13: at batch 1 the CPU cannot feed the GPU, which is busy for less than half of the decode step") {
  // 900 kernels of a small decode step; measured 3 to 6 us of CPU for each launch.
  for (const Picoseconds host : {3_us, 6_us}) {
    CHECK(utilization(isolated(eager_program(repeated(900, 1_us), host)).totals) < 0.5);
  }
}

TEST_CASE("R-36: a captured step is one launch with the same kernels, copies and memsets") {
  ProgramBuilder eager;
  ProgramBuilder captured;
  const Durations ops = {2_us, 3_us, 1_us, 4_us};
  eager.launch_all(ops, 6_us);
  captured.launch_graph(ops, 6_us);
  for (ProgramBuilder* p : {&eager, &captured}) {
    p->program().ops[0].kind = engine::OpKind::Memcpy;
    p->program().ops[0].copy_engine = engine::CopyEngine::HostToDevice;
    p->program().ops[2].kind = engine::OpKind::Memset;
  }
  const engine::Run a = isolated(eager);
  const engine::Run b = isolated(captured);
  CHECK(a.totals.busy == b.totals.busy);
  CHECK(a.totals.counts.kernels == b.totals.counts.kernels);
  CHECK(a.totals.counts.memcpys == b.totals.counts.memcpys);
  CHECK(a.totals.counts.memsets == b.totals.counts.memsets);
  CHECK(b.totals.counts.cuda_graph_launches == 1);
  CHECK(b.totals.host_work == 6_us);
}

TEST_CASE("R-43: L layers split at attention are L + 1 CUDA-graph launches and L launches of their own") {
  const int layers = 32;
  ProgramBuilder piecewise;
  piecewise.launch_graph(repeated(5, 2_us), 6_us);
  for (int i = 0; i < layers; ++i) piecewise.launch(10_us, 6_us).launch_graph(repeated(5, 2_us), 6_us);
  const engine::Run run = isolated(piecewise);
  CHECK(run.totals.counts.cuda_graph_launches == layers + 1);
  CHECK(run.totals.counts.kernel_launches == layers);
  CHECK(run.totals.counts.kernels == 5 * (layers + 1) + layers);
  CHECK(run.totals.host_work == (2 * layers + 1) * 6_us);
}

TEST_CASE(
    "R-44: a CUDA graph speeds a decode step of short kernels up much and a prefill of long ones hardly") {
  const auto gain = [](std::int64_t n, Picoseconds d) {
    return seconds(isolated(eager_program(repeated(n, d), 6_us)).totals.wall) /
           seconds(isolated(graph_program(repeated(n, d), 6_us)).totals.wall);
  };
  CHECK(gain(300, 1_us) > 5);
  CHECK(gain(300, 500_us) == Approx(1).epsilon(1e-9));
}

TEST_CASE("R-46: the host saves the launches removed times their cost") {
  for (const std::int64_t n : {10, 480, 900}) {
    const engine::Run eager = isolated(eager_program(repeated(n, 1_us), 5_us));
    const engine::Run graph = isolated(graph_program(repeated(n, 1_us), 5_us));
    CHECK(eager.totals.host_work - graph.totals.host_work == (n - 1) * 5_us);
    CHECK(launch_time_saved(n, 5_us, 1, 5_us) == (n - 1) * 5_us);
  }
}

}  // namespace
}  // namespace gpusim::test
