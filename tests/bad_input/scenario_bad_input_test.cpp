// SPDX-License-Identifier: Apache-2.0
// What users get wrong in scenarios, and every word they then read.
#include <string>
#include <vector>

#include "sim/app/expectations.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;

namespace {

std::string message(const std::string& text, ScenarioOptions options = {}) {
  options.metrics = metric_paths();
  try {
    read_scenario_text(text, "x.yaml", options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

struct Case {
  std::string text;
  std::string message;
};

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    INFO(c.text);
    CHECK(message(c.text) == c.message);
  }
}

/// A workload with these items, on its second line from column 13.
std::string one(const std::string& items) {
  return "workload:\n  kernels: [" + items + "]\n";
}

}  // namespace

TEST_CASE("mistakes at the top level are located and explained") {
  check({
      {"- a\n", "x.yaml:1:1: error: a scenario is a map\n  hint: it begins with 'name:' and 'workload:'"},
      {"nmae: x\nworkload: {kernels: []}\n",
       "x.yaml:1:1: error: nmae: unknown key\n  hint: did you mean 'name'?"},
      {"name: x\n",
       "x.yaml:1:1: error: missing key 'workload'\n  hint: write 'workload: {network: gpt2, ...}', "
       "'workload: {kernels: [...]}' or "
       "'workload: {trace: PATH}'"},
      {"workload: {kernels: []}\nsteps: 0\n", "x.yaml:2:8: error: steps: must be at least 1, not 0"},
      {"workload: {kernels: []}\nseed: -1\n", "x.yaml:2:7: error: seed: must not be negative, but is -1"},
      {"workload: {kernels: []}\ncuda_graph: fulll\n",
       "x.yaml:2:13: error: cuda_graph: unknown name 'fulll'\n  hint: did you mean 'full'?"},
      {"hardware: h20\nworkload: {kernels: []}\n",
       "x.yaml:1:11: error: hardware: unknown hardware 'h20'\n  hint: did you mean 'h200'?"},
      {"workload: {kernals: []}\n",
       "x.yaml:1:12: error: workload.kernals: unknown key\n  hint: did you mean 'kernels'?"},
      {"workload: {}\n",
       "x.yaml:1:11: error: workload: says neither 'network' nor 'kernels' nor 'trace'\n"
       "  hint: write 'network:' with a name, 'kernels:' with a list, or 'trace:' with the path of a "
       "profiler "
       "trace"},
      {"workload: {kernels: [], trace: a.json}\n",
       "x.yaml:1:32: error: workload.trace: a workload is either a list of kernels or a trace\n"
       "  hint: remove 'kernels' or 'trace'"},
      {"workload: {trace: nowhere.json}\n",
       "x.yaml:1:19: error: workload.trace: no such file: 'nowhere.json'\n"
       "  hint: paths are relative to the scenario file"},
  });
}

TEST_CASE("mistakes in variants are located and explained") {
  check({
      {"workload: {kernels: []}\nvariants: {}\n",
       "x.yaml:2:11: error: variants: the list of variants is empty\n"
       "  hint: leave the key away for one variant called 'default'"},
      {"workload: {kernels: []}\nvariants: {a b: {}}\n",
       "x.yaml:2:12: error: variants.a b: 'a b' is not a name for a variant\n"
       "  hint: use letters, digits, '_' and '-'"},
      {"workload: {kernels: []}\nvariants: {a: 5}\n",
       "x.yaml:2:15: error: variants.a: a variant is a map of what it changes\n"
       "  hint: write {} if it changes nothing"},
      {"workload: {kernels: []}\nvariants: {a: {name: y}}\n",
       "x.yaml:2:16: error: variants.a.name: unknown key\n"
       "  hint: known keys: hardware, host, workload, cuda_graph, shapes, steps, seed, instructions_max, "
       "backend, mode, fullgraph, regional, warm_cache, dynamic, recompile_limit, graph_breaks, passes, "
       "fusion, precision, kernel_overrides, recompute"},
  });
}

TEST_CASE("mistakes in items are located and explained") {
  check({
      {one("5"),
       "x.yaml:2:13: error: workload.kernels[0]: an item of a host thread is a map\n"
       "  hint: write for example {kernel: relu, duration: 3 us}"},
      {one("{kernal: a}"),
       "x.yaml:2:14: error: workload.kernels[0].kernal: unknown key\n  hint: did you mean 'kernel'?"},
      {one("{kernel: a}"),
       "x.yaml:2:13: error: workload.kernels[0]: missing key 'duration'\n"
       "  hint: give 'duration', 'durations' or 'distribution'"},
      {one("{kernel: a, duration: 3}"),
       "x.yaml:2:35: error: workload.kernels[0].duration: '3' has no unit\n"
       "  hint: write a duration such as '3 us' (ps, ns, us, ms, s)"},
      {one("{kernel: a, duration: -3 us}"),
       "x.yaml:2:35: error: workload.kernels[0].duration: must not be negative, but is -3 us"},
      {one("{kernel: a, duration: nan us}"),
       "x.yaml:2:35: error: workload.kernels[0].duration: 'nan us' is not a finite number\n"
       "  hint: write a duration such as '3 us' (ps, ns, us, ms, s)"},
      {one("{kernel: a, duration: 1e30 s}"),
       "x.yaml:2:35: error: workload.kernels[0].duration: '1e30 s' is out of range\n"
       "  hint: a duration is at most 106 days, counted in picoseconds"},
      {one("{kernel: a, duration: 1 us, durations: [1 us]}"),
       "x.yaml:2:13: error: workload.kernels[0]: gives its duration twice\n"
       "  hint: keep one of 'duration', 'durations' and 'distribution'"},
      {one("{kernel: a, duration: 1 us, dtype: bf61}"),
       "x.yaml:2:48: error: workload.kernels[0].dtype: unknown dtype 'bf61'\n  hint: did you mean 'bf16'?"},
      {one("{kernel: a, distribution: d}"),
       "x.yaml:2:39: error: workload.kernels[0].distribution: unknown distribution 'd'\n"
       "  hint: the workload has no distributions"},
      {one("{copy: h2h, duration: 1 us}"),
       "x.yaml:2:20: error: workload.kernels[0].copy: unknown name 'h2h'\n  hint: did you mean 'h2d'?"},
      {one("{copy: h2d, bytes: 4 MiB}"),
       "x.yaml:2:13: error: workload.kernels[0]: missing key 'duration'\n"
       "  hint: without 'hardware' a copy has no bandwidth"},
      {one("{free: x}"),
       "x.yaml:2:20: error: workload.kernels[0].free: 'x' is never allocated\n"
       "  hint: the workload allocates nothing"},
      {one("{allocate: x, bytes: 1 B}, {repeat: 2, body: [{free: x}]}"),
       "x.yaml:2:66: error: workload.kernels[1].body[0].free: 'x' is freed more often than it is allocated\n"
       "  hint: in one step it is allocated 1x"},
      {one("{allocate: x, bytes: 1 B}, {allocate: x, bytes: 2 B}"),
       "x.yaml:2:61: error: workload.kernels[1].bytes: 'x' is allocated with 1 B before\n"
       "  hint: give allocations of different sizes different names"},
      {one("{synchronize: {stream: s}}"),
       "x.yaml:2:36: error: workload.kernels[0].synchronize.stream: unknown stream 's'\n"
       "  hint: the workload has no streams"},
      {one("{synchronize: {event: e}}, {record: ee}"),
       "x.yaml:2:35: error: workload.kernels[0].synchronize.event: unknown event 'e'\n"
       "  hint: known events: ee"},
      {one("{kernel: a, duration: 1 us, repeat: 10000001}"),
       "x.yaml:2:13: error: workload.kernels[0]: the step has more than 10000000 host instructions and "
       "CUDA-graph "
       "nodes (instructions_max)\n"
       "  hint: repeat less, or set 'instructions_max' at the top level of the scenario"},
      {one("{repeat: 9223372036854775807, body: [{repeat: 9223372036854775807, body: [{work: 1 us}]}]}"),
       "x.yaml:2:87: error: workload.kernels[0].body[0].body[0]: the step has more than 10000000 host "
       "instructions "
       "and CUDA-graph nodes (instructions_max)\n"
       "  hint: repeat less, or set 'instructions_max' at the top level of the scenario"},
      {one("{cuda_graph: g, nodes: [{work: 1 us}]}"),
       "x.yaml:2:37: error: workload.kernels[0].nodes[0]: a node of a CUDA graph is a kernel, copy, "
       "memset, record or wait"},
      {one("{cuda_graph: g, nodes: [{kernel: a, duration: 1 us, id: p, needs: [p]}]}"),
       "x.yaml:2:80: error: workload.kernels[0].nodes[0].needs[0]: no earlier node has the id 'p'\n"
       "  hint: no node before this one has an 'id'"},
  });
}

TEST_CASE("mistakes in expectations are located and explained") {
  const std::string head = "workload: {kernels: []}\nvariants: {eager: {}, graph: {}}\nexpect:\n";
  check({
      {head + "  - {path: eager.step_tme, equals: 1 us}\n",
       "x.yaml:4:12: error: expect[0].path: unknown figure 'step_tme'\n  hint: did you mean 'step_time'?"},
      {head + "  - {path: egaer.step_time, equals: 1 us}\n",
       "x.yaml:4:12: error: expect[0].path: unknown variant 'egaer'\n  hint: did you mean 'eager'?"},
      {head + "  - {path: step_time, equals: 1 us}\n",
       "x.yaml:4:12: error: expect[0].path: does not say which variant\n  hint: write for example "
       "eager.step_time"},
      {head + "  - {path: eager, equals: 1 us}\n",
       "x.yaml:4:12: error: expect[0].path: 'eager' names a variant but no figure of it\n"
       "  hint: write for example eager.step_time"},
      {head + "  - {path: eager.step_time, equals: 1}\n",
       "x.yaml:4:37: error: expect[0].equals: '1' has no unit\n"
       "  hint: write a duration such as '3 us' (ps, ns, us, ms, s)"},
      {head + "  - {path: eager.step_time_us, equals: 1 us}\n",
       "x.yaml:4:40: error: expect[0].equals: unit 'us' makes a duration, but a number is needed\n"
       "  hint: write a number such as '0.5', without a unit"},
      {head + "  - {path: eager.step_time}\n",
       "x.yaml:4:5: error: expect[0]: says nothing about the value\n  hint: give 'equals', 'min', 'max' or "
       "'not'"},
      {head + "  - {path: eager.step_time, equals: 1 us, max: 2 us}\n",
       "x.yaml:4:5: error: expect[0]: gives several conditions\n"
       "  hint: keep one of 'equals', 'min', 'max' and 'not', or 'min' and 'max' together"},
      {head + "  - {path: eager.regime, min: memory}\n",
       "x.yaml:4:31: error: expect[0].min: only numbers and times have a least or greatest value"},
      {head + "  - {path: eager.step_time, max: 0.5, relative_to: graf}\n",
       "x.yaml:4:52: error: expect[0].relative_to: unknown variant 'graf'\n  hint: known variants: eager, "
       "graph"},
      {head + "  - {path: eager.step_time, max: 1 us, withn: 5 %}\n",
       "x.yaml:4:40: error: expect[0].withn: unknown key\n  hint: did you mean 'within'?"},
  });
}

TEST_CASE("all mistakes of a file are reported in the order of their places, each once") {
  const std::string text =
      "workload:\n"
      "  kernels:\n"
      "    - {kernel: a, duration: 3}\n"
      "    - {kernal: b}\n"
      "variants: {a: {}, b: {}}\n"
      "expect:\n"
      "  - {path: a.stp_time, equals: 1 us}\n";
  const std::string all = message(text);
  const auto first = all.find("x.yaml:3:29");
  const auto second = all.find("x.yaml:4:8");
  const auto third = all.find("x.yaml:7:12");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third != std::string::npos);
  CHECK(all.find("x.yaml:3:29", first + 1) == std::string::npos);
}

TEST_CASE("mistakes of the command line are located there") {
  ScenarioOptions options;
  options.sets = {"workload.kernels.0.duration=3"};
  CHECK(message(one("{kernel: a, duration: 1 us}"), options) ==
        "--set workload.kernels.0.duration=3: error: workload.kernels[0].duration: '3' has no unit\n"
        "  hint: write a duration such as '3 us' (ps, ns, us, ms, s)");
  options.sets.clear();
  options.variants = {"graf"};
  CHECK(message("workload: {kernels: []}\nvariants: {graph: {}}\n", options) ==
        "--variant graf: error: unknown variant 'graf'\n  hint: known variants: graph");
}

TEST_CASE("limits can be raised where they can be set") {
  CHECK(message("instructions_max: 5\n" + one("{work: 1 us, repeat: 5}")) == "no error");
  CHECK_THAT(message("instructions_max: 4\n" + one("{work: 1 us, repeat: 5}")),
             test::ContainsSubstring("more than 4 host instructions"));
  CHECK_THAT(message("steps: 1000000000\n" + one("{work: 1 us, repeat: 5}")),
             test::ContainsSubstring("run_instructions_max"));
}

TEST_CASE("mistakes in what a kernel shares are located and explained") {
  const std::string both = "how a kernel shares its device is known from 'blocks' and 'threads'";
  check({
      {one("{kernel: a, duration: 1 us, threads: 256}"),
       "x.yaml:2:50: error: workload.kernels[0].threads: says nothing without 'blocks'\n  hint: " + both},
      {one("{kernel: a, duration: 1 us, blocks: 8, registers: 40, arithmetic: 0.3}"),
       "x.yaml:2:63: error: workload.kernels[0].registers: says nothing without 'threads'\n  hint: " + both},
      {one("{kernel: a, duration: 1 us, memory_hidden: true}"),
       "x.yaml:2:56: error: workload.kernels[0].memory_hidden: says nothing without 'blocks'\n  hint: " +
           both},
      {one("{kernel: a, duration: 1 us, blocks: 0, threads: 256}"),
       "x.yaml:2:49: error: workload.kernels[0].blocks: must be at least 1 beside 'threads', not 0"},
      {one("{kernel: a, duration: 1 us, blocks: 8, threads: 1025}"),
       "x.yaml:2:61: error: workload.kernels[0].threads: must be at most 1024, not 1025"},
      {one("{kernel: a, duration: 1 us, blocks: 8, threads: 0}"),
       "x.yaml:2:61: error: workload.kernels[0].threads: must be at least 1, not 0"},
      {one("{kernel: a, duration: 1 us, blocks: 8, threads: 8, registers: 256}"),
       "x.yaml:2:75: error: workload.kernels[0].registers: must be at most 255, not 256"},
      {one("{kernel: a, duration: 1 us, blocks: 8, threads: 8, shared_memory: 48}"),
       "x.yaml:2:79: error: workload.kernels[0].shared_memory: '48' has no unit\n"
       "  hint: write a size such as '128 MiB' (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)"},
      {one("{kernel: a, duration: 1 us, blocks: 8, threads: 8, shared_memory: 2 MiB}"),
       "x.yaml:2:79: error: workload.kernels[0].shared_memory: must be at most 1 MiB, not 2 MiB"},
      {one("{kernel: a, duration: 1 us, blocks: 8, threads: 8, arithmetic: 1.5}"),
       "x.yaml:2:76: error: workload.kernels[0].arithmetic: must be at most 1, not 1.5"},
      {one("{kernel: a, duration: 1 us, blocks: 8, threads: 8, arithmetic: nan}"),
       "x.yaml:2:76: error: workload.kernels[0].arithmetic: 'nan' is not a finite number\n"
       "  hint: write a number such as '0.5', without a unit"},
      {one("{kernel: a, duration: 1 us, thread: 8}"),
       "x.yaml:2:41: error: workload.kernels[0].thread: unknown key\n  hint: did you mean 'threads'?"},
  });
}

TEST_CASE("a block that fits on no SM of the hardware is refused") {
  const std::string h200 = "hardware: h200\n";
  check({
      {h200 + one("{kernel: a, duration: 1 us, blocks: 8, threads: 8, shared_memory: 229 KiB}"),
       "x.yaml:3:79: error: workload.kernels[0].shared_memory: no block fits on an SM\n"
       "  hint: an SM of NVIDIA H200 SXM has 228 KiB of shared memory"},
      {h200 + one("{kernel: a, duration: 1 us, blocks: 8, threads: 1024, registers: 65}"),
       "x.yaml:3:78: error: workload.kernels[0].registers: no block fits on an SM\n"
       "  hint: an SM of NVIDIA H200 SXM has 65536 registers"},
      {"hardware: {base: h200, sm: {threads: 512}}\n" +
           one("{kernel: a, duration: 1 us, blocks: 8, threads: 513}"),
       "x.yaml:3:61: error: workload.kernels[0].threads: no block fits on an SM\n"
       "  hint: an SM of NVIDIA H200 SXM has 512 threads"},
  });
}

TEST_CASE("mistakes about devices are located and explained") {
  const auto with = [](const std::string& streams, const std::string& items) {
    return "workload:\n  streams: " + streams + "\n  kernels: [" + items + "]\n";
  };
  const std::string kernel = "{kernel: a, duration: 1 us, stream: s}";
  const std::string place = "'streams: {NAME: {device: 1}}' beside 'kernels' puts ";
  check({
      {with("{s: 1}", kernel),
       "x.yaml:2:16: error: workload.streams.s: a stream is a map\n  hint: write {device: 1}"},
      {with("{s: {}}", kernel),
       "x.yaml:2:16: error: workload.streams.s: missing key 'device'\n  hint: the map is empty"},
      {with("{s: {device: -1}}", kernel),
       "x.yaml:2:25: error: workload.streams.s.device: must not be negative, but is -1"},
      {with("{s: {device: 256}}", kernel),
       "x.yaml:2:25: error: workload.streams.s.device: must be at most 255, not 256"},
      {with("{s: {devise: 1}}", kernel),
       "x.yaml:2:16: error: workload.streams.s: missing key 'device'\n  hint: keys given here: devise\n"
       "x.yaml:2:17: error: workload.streams.s.devise: unknown key\n  hint: did you mean 'device'?"},
      {with("{t: {device: 1}}", kernel),
       "x.yaml:2:16: error: workload.streams.t: nothing uses the stream 't'\n  hint: known streams: s"},
      {one("{synchronize: {device: 1}}, " + kernel),
       "x.yaml:2:36: error: workload.kernels[0].synchronize.device: no stream is on device 1\n  hint: " +
           place + "one there"},
      {one("{synchronize: {device: 0, stream: s}}, " + kernel),
       "x.yaml:2:27: error: workload.kernels[0].synchronize: says none or several of 'stream', 'event' and "
       "'device'\n  hint: write device, {stream: NAME}, {event: NAME} or {device: 1}"},
      {one("{copy: peer, bytes: 1 MiB, duration: 1 us}"),
       "x.yaml:2:13: error: workload.kernels[0]: missing key 'to'\n"
       "  hint: keys given here: copy, bytes, duration"},
      {"hardware: h200\n" + one("{copy: peer, to: 1, bytes: 1 MiB}"),
       "x.yaml:3:13: error: workload.kernels[0]: missing key 'duration'\n"
       "  hint: no hardware file gives the bandwidth between two devices"},
      {one("{copy: peer, to: 0, duration: 1 us}"),
       "x.yaml:2:30: error: workload.kernels[0].to: the copy comes from device 0 itself\n  hint: " + place +
           "a stream on another device"},
      {with("{s: {device: 3}}", "{cuda_graph: g, nodes: [{copy: peer, to: 3, duration: 1 us}], stream: s}"),
       "x.yaml:3:54: error: workload.kernels[0].nodes[0].to: the copy comes from device 3 itself\n  hint: " +
           place + "a stream on another device"},
      {one("{copy: d2d, to: 1, duration: 1 us}"),
       "x.yaml:2:29: error: workload.kernels[0].to: only a copy to another device has 'to'\n"
       "  hint: write {copy: peer, to: 1}"},
      {"cuda_graph: full\n" + with("{s: {device: 1}}", kernel + ", {kernel: b, duration: 1 us}"),
       "x.yaml:3:16: error: workload.streams.s: 'cuda_graph: full' records the work of one device, and the "
       "streams are on several\n"
       "  hint: write the CUDA graphs of each device as items, or put all streams on one device"},
      {"cuda_graph: full\n" + with("{s: {device: 1}}", kernel), "no error"},
  });
}

TEST_CASE("mistakes in events of a CUDA graph are located and explained") {
  check({
      {one("{cuda_graph: g, nodes: [{record: e, stream: s}]}"),
       "x.yaml:2:49: error: workload.kernels[0].nodes[0].stream: unknown key\n"
       "  hint: known keys: kernel, copy, memset, record, id, needs"},
      {one("{cuda_graph: g, nodes: [{wait: ''}]}"),
       "x.yaml:2:44: error: workload.kernels[0].nodes[0].wait: the name is empty"},
      {one("{cuda_graph: g, nodes: [{record: e, needs: [x]}]}"),
       "x.yaml:2:57: error: workload.kernels[0].nodes[0].needs[0]: no earlier node has the id 'x'\n"
       "  hint: no node before this one has an 'id'"},
  });
}
