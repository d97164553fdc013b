// SPDX-License-Identifier: Apache-2.0
// What one of several ranks runs: products shared, gradients in buckets, parameters in parts.
#include <algorithm>
#include <string>
#include <vector>

#include "models/graph/data_parallel.hpp"
#include "models/graph/memory.hpp"
#include "models/graph/tensor_parallel.hpp"
#include "models/graph/training.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;

std::vector<const Op*> ops_of(const OpGraph& graph, std::string_view kind) {
  std::vector<const Op*> found;
  for (const Op& op : graph.ops)
    if (op.kind->name == kind) found.push_back(&op);
  return found;
}
std::int64_t count(const OpGraph& graph, std::string_view kind) {
  return static_cast<std::int64_t>(ops_of(graph, kind).size());
}
const Op& op_named(const OpGraph& graph, const std::string& name) {
  const auto found =
      std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return op.name == name; });
  REQUIRE(found != graph.ops.end());
  return *found;
}
const Dims& shape(const OpGraph& graph, TensorIndex t) {
  return graph.tensors[t].type.shape;
}
std::int64_t parameters(const OpGraph& graph) {
  return parameter_count(graph);
}

/// Ops stand behind those that make what they read, and equal ops point at the first.
void check_order(const OpGraph& graph) {
  for (OpIndex i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    CHECK(op.like <= i);
    CHECK(graph.ops[op.like].kind == op.kind);
    for (const TensorIndex t : op.inputs)
      if (t != graph_none && graph.tensors[t].producer != graph_none) CHECK(graph.tensors[t].producer < i);
    for (const TensorIndex t : op.outputs) CHECK(graph.tensors[t].producer == i);
  }
}

OpGraph small_llama(StepKind step, std::int64_t tensor, bool sequence = false) {
  const OpGraph whole = build_graph(shipped_network("llama"), sizes(2, 64, step,
                                                                    {{"layers", std::int64_t{2}},
                                                                     {"d_model", std::int64_t{64}},
                                                                     {"heads", std::int64_t{8}},
                                                                     {"kv_heads", std::int64_t{4}},
                                                                     {"d_ff", std::int64_t{96}},
                                                                     {"vocab", std::int64_t{100}}}));
  ParallelPlan plan;
  plan.tensor = tensor;
  plan.sequence = sequence;
  return tensor_parallel_forward(whole, plan);
}

TEST_CASE("two ranks each have half the heads, half the MLP and half the cache") {
  const OpGraph graph = small_llama(StepKind::Decode, 2);
  check_order(graph);
  // Two sums a block: behind the product that leaves attention and behind the one that leaves the MLP.
  CHECK(count(graph, "all_reduce") == 4);
  const std::vector<const Op*> products = ops_of(graph, "linear");
  REQUIRE(products.size() == 2 * 7 + 1);
  CHECK(shape(graph, products[0]->inputs[1]) == Dims{32, 64});    // q: 4 of 8 heads of 8
  CHECK(shape(graph, products[1]->inputs[1]) == Dims{16, 64});    // k: 2 of 4
  CHECK(shape(graph, products[3]->inputs[1]) == Dims{64, 32});    // out of attention
  CHECK(shape(graph, products[4]->inputs[1]) == Dims{48, 64});    // gate
  CHECK(shape(graph, products[6]->inputs[1]) == Dims{64, 48});    // down
  CHECK(shape(graph, products[14]->inputs[1]) == Dims{100, 64});  // the head is whole
  for (const GraphTensor& tensor : graph.tensors)
    if (tensor.role == Role::State) CHECK(tensor.type.shape == Dims{2, 2, 64, 8});
}

TEST_CASE("products that ranks share keep their FLOPs in sum") {
  const OpGraph whole = small_llama(StepKind::Inference, 1);
  const OpGraph half = small_llama(StepKind::Inference, 2);
  const auto flops = [](const OpGraph& graph) {
    double sum = 0;
    for (const Op& op : graph.ops)
      if (op.kind->flops != nullptr) sum += op.kind->flops(OpTypes(graph, op).view(op)).value();
    return sum;
  };
  // The head is worked out by both: 2 x 2 x 64 rows x 64 x 100.
  const double head = 2.0 * 128 * 64 * 100;
  CHECK(flops(whole) - head == Approx(2 * (flops(half) - head)));
}

TEST_CASE("backward adds up what column products were given, and nothing behind row products") {
  ParallelPlan plan;
  plan.tensor = 2;
  const OpGraph forward =
      tensor_parallel_forward(small_graph("  - z = linear(gelu(linear(x, 8)), 4)\n",
                                          sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)),
                              plan);
  CHECK(count(forward, "all_reduce") == 1);
  TrainingOptions options;
  options.precision = TrainingPrecision::Pure;
  options.loss = LossKind::Mean;
  const OpGraph step = training_graph(forward, options);
  // x is not trained, so nothing reaches it; with a layer before it there would be one.
  CHECK(count(step, "all_reduce") == 1);
  const OpGraph two = training_graph(
      tensor_parallel_forward(small_graph("  - h = layer_norm(x)\n  - z = linear(gelu(linear(h, 8)), 4)\n",
                                          sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)),
                              plan),
      options);
  CHECK(count(two, "all_reduce") == 2);
}

TEST_CASE("a bias behind a row product is added once, behind the sum") {
  ParallelPlan plan;
  plan.tensor = 2;
  const OpGraph graph = tensor_parallel_forward(small_graph("  - z = linear(gelu(linear(x, 8)), 4)\n"), plan);
  CHECK(ops_of(graph, "linear")[1]->inputs[2] == graph_none);
  CHECK(count(graph, "add") == 1);
  CHECK(shape(graph, ops_of(graph, "add")[0]->inputs[1]) == Dims{4});
}

TEST_CASE(
    "with sequence parallelism norms work on a rank's rows, and rows are gathered before column products") {
  const OpGraph graph = small_llama(StepKind::Inference, 2, true);
  check_order(graph);
  CHECK(count(graph, "all_reduce") == 0);
  CHECK(count(graph, "reduce_scatter") == 4);
  // Two a block, and one before the head.
  CHECK(count(graph, "all_gather") == 5);
  for (const Op* op : ops_of(graph, "rsqrt")) CHECK(shape(graph, op->outputs[0]) == Dims{2, 32, 1});
}

TEST_CASE("heads that do not divide are refused with their place") {
  ParallelPlan plan;
  plan.tensor = 3;
  const OpGraph whole =
      build_graph(shipped_network("gpt2"), sizes(1, 8, StepKind::Inference, {{"heads", std::int64_t{16}}}));
  CHECK_THROWS_WITH(tensor_parallel_forward(whole, plan),
                    Catch::Matchers::Contains("does not divide among 3 ranks"));
}

TEST_CASE("experts are shared, and rows go to them and back") {
  const OpGraph whole = build_graph(shipped_network("mixtral"), sizes(2, 16, StepKind::Inference,
                                                                      {{"layers", std::int64_t{1}},
                                                                       {"d_model", std::int64_t{64}},
                                                                       {"heads", std::int64_t{4}},
                                                                       {"kv_heads", std::int64_t{2}},
                                                                       {"d_ff", std::int64_t{32}},
                                                                       {"vocab", std::int64_t{50}}}));
  ParallelPlan plan;
  plan.data = 4;
  plan.expert = 4;
  const OpGraph graph = tensor_parallel_forward(whole, plan);
  check_order(graph);
  CHECK(count(graph, "all_to_all") == 2);
  for (const Op* op : ops_of(graph, "grouped_mm")) {
    CHECK(shape(graph, op->inputs[1])[0] == 2);           // of 8 experts
    CHECK(shape(graph, op->inputs[0])[0] == 2 * 16 * 2);  // top 2 of 32 rows, evenly
  }
  // 8 experts of gate, up and down, of which a quarter is here.
  CHECK(parameters(whole) - parameters(graph) == 6 * 3 * 64 * 32);
}

// --- Data parallelism.

OpGraph small_gpt(DataKind kind, std::int64_t data, std::int64_t accumulation = 1,
                  Bytes bucket = Bytes(25 << 20)) {
  TrainingOptions options;
  options.accumulation = accumulation;
  ParallelPlan plan;
  plan.data = data;
  plan.kind = kind;
  plan.bucket = bucket;
  plan.first_bucket = std::min(plan.first_bucket, bucket);
  const OpGraph forward = build_graph(shipped_network("gpt2"), sizes(2, 32, StepKind::Training,
                                                                     {{"layers", std::int64_t{3}},
                                                                      {"d_model", std::int64_t{64}},
                                                                      {"heads", std::int64_t{2}},
                                                                      {"vocab", std::int64_t{128}}},
                                                                     ElementType::Fp32));
  return data_parallel_step(training_graph(forward, options), plan);
}

TEST_CASE("GPT-2's gradients go into the buckets of a measured trace") {
  // Two H200s: 13 all-reduces of 2,360,832, then 11 times 7,087,872 and at last 44,148,480 elements.
  TrainingOptions options;
  ParallelPlan plan;
  plan.data = 2;
  const OpGraph graph = data_parallel_step(
      training_graph(
          build_graph(shipped_network("gpt2"), sizes(1, 16, StepKind::Training, {}, ElementType::Fp32)),
          options),
      plan);
  check_order(graph);
  std::vector<std::int64_t> elements_sent;
  for (const Op* op : ops_of(graph, "all_reduce"))
    elements_sent.push_back(elements(graph.tensors[op->inputs[0]].type));
  std::vector<std::int64_t> want{2'360'832};
  want.insert(want.end(), 11, 7'087'872);
  want.push_back(44'148'480);
  CHECK(elements_sent == want);
  CHECK(count(graph, "ddp_bucket") == 148);
  CHECK(count(graph, "ddp_unbucket") == 148);
}

TEST_CASE("a bucket is sent as soon as its last gradient is there, and read behind backward") {
  const OpGraph graph = small_gpt(DataKind::Ddp, 4, 1, Bytes(100'000));
  const std::vector<const Op*> sent = ops_of(graph, "all_reduce");
  REQUIRE(sent.size() > 2);
  // The op before an all-reduce puts a gradient into the same bucket.
  for (const Op* op : sent) {
    const Op& before = *(op - 1);
    CHECK(before.kind->name == "ddp_bucket");
    CHECK(before.inputs[1] == op->inputs[0]);
    CHECK(op->attributes.word("stream") == "nccl");
  }
  CHECK(sent.front() < ops_of(graph, "ddp_unbucket").front());
  CHECK(ops_of(graph, "ddp_unbucket").back() < &op_named(graph, "optimizer.step"));
}

TEST_CASE("DDPOptimizer cuts GPT-2 before the head and before each block's first product") {
  ParallelPlan plan;
  plan.data = 2;
  TrainingOptions options;
  options.precision = TrainingPrecision::Pure;
  const OpGraph graph = training_graph(
      build_graph(shipped_network("gpt2"), sizes(1, 16, StepKind::Training, {}, ElementType::Fp32)), options);
  // Going back: the head's table is more than 1 MiB. The products of a block have 7,081,728 parameters and
  // 28.3 MB, the two of the MLP and the second of attention 21.3 MB; with the first one of attention that is
  // more than 25 MiB. What is left over are the first norm and the table of positions: a piece as well.
  const std::vector<OpIndex> cuts = ddp_cuts(graph, plan);
  REQUIRE(cuts.size() == 12 + 1);
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    const Op& op = graph.ops[cuts[k]];
    CHECK(op.kind->name == "linear");
    const std::int64_t columns = k < 12 ? 3 * 768 : 50304;
    CHECK(shape(graph, op.outputs[0]).back() == columns);
  }
}

TEST_CASE("without a second rank nothing is added") {
  CHECK(small_gpt(DataKind::Fsdp, 1).ops.size() == small_gpt(DataKind::Ddp, 1).ops.size());
}

TEST_CASE("FSDP gathers each block in forward and in backward, and the rest once") {
  const OpGraph graph = small_gpt(DataKind::Fsdp, 2);
  check_order(graph);
  CHECK(count(graph, "all_gather") == 1 + 3 + 3);
  CHECK(count(graph, "reduce_scatter") == 3 + 1);
  // 3 blocks of 12 gradients, and what is left: two tables, norm.
  CHECK(ops_of(graph, "fsdp_scatter_input").front()->attributes.integer("count") == 12);
  CHECK(ops_of(graph, "fsdp_scatter_input").back()->attributes.integer("count") == 4);
}

TEST_CASE("in backward a block is gathered while the one behind it is worked on") {
  const OpGraph graph = small_gpt(DataKind::Fsdp, 2);
  std::vector<std::string> names;
  for (const Op& op : graph.ops)
    if (op.phase == Phase::Backward &&
        (op.kind->name == "all_gather" || op.kind->name == "fsdp_gather_output" ||
         op.kind->name == "reduce_scatter"))
      names.push_back(op.name);
  CHECK(names == std::vector<std::string>{"block[2].again.all_gather", "block[2].again.copy_out",
                                          "block[1].again.all_gather", "block[2].reduce_scatter",
                                          "block[1].again.copy_out", "block[0].again.all_gather",
                                          "block[1].reduce_scatter", "block[0].again.copy_out",
                                          "block[0].reduce_scatter", "root.reduce_scatter"});
}

TEST_CASE("parameters, gradients and states of FSDP are parts, rounded up") {
  const OpGraph graph = small_gpt(DataKind::Fsdp, 3);
  const Op& step = op_named(graph, "optimizer.step");
  const auto parts = static_cast<std::size_t>(step.attributes.integer("count"));
  for (std::size_t i = 0; i < parts; ++i) {
    const Dims& part = shape(graph, step.inputs[i]);
    CHECK(graph.tensors[step.inputs[i]].role == Role::Parameter);
    CHECK(shape(graph, step.inputs[parts + i]) == part);
    CHECK(graph.tensors[step.inputs[parts + i]].role == Role::Gradient);
    CHECK(shape(graph, step.inputs[2 * parts + i]) == part);
  }
}

/// Bytes on a rank while the optimizer runs.
MemoryShares held(const OpGraph& graph) {
  std::vector<MemoryPoint> curve;
  eager_memory(graph, h200(), 1, &curve);
  return curve.back().shares;
}

TEST_CASE("ZeRO's stages share states, then gradients, then parameters") {
  const MemoryShares ddp = held(small_gpt(DataKind::Ddp, 4));
  const MemoryShares one = held(small_gpt(DataKind::Zero1, 4));
  const MemoryShares two = held(small_gpt(DataKind::Zero2, 4));
  const MemoryShares three = held(small_gpt(DataKind::Zero3, 4));
  const auto share = [](const MemoryShares& some, const MemoryShares& all, MemoryKind kind) {
    return some[kind] / all[kind];
  };
  CHECK(share(one, ddp, MemoryKind::OptimizerStates) == Approx(0.25).epsilon(0.1));
  CHECK(one[MemoryKind::Parameters] == ddp[MemoryKind::Parameters]);
  CHECK(share(two, ddp, MemoryKind::OptimizerStates) == Approx(0.25).epsilon(0.1));
  // DDP has gradients twice: its own and the buckets.
  CHECK(share(two, ddp, MemoryKind::Gradients) < 0.2);
  CHECK(two[MemoryKind::Parameters] == ddp[MemoryKind::Parameters]);
  CHECK(share(three, ddp, MemoryKind::Parameters) == Approx(0.25).epsilon(0.1));
}

TEST_CASE("micro-batches of FSDP add up parts") {
  const OpGraph graph = small_gpt(DataKind::Fsdp, 2, 4);
  check_order(graph);
  for (const Op* op : ops_of(graph, "add_"))
    if (op->accumulates) CHECK(op->name.find(".grad.add") != std::string::npos);
  const Op& step = op_named(graph, "optimizer.step");
  const auto parts = static_cast<std::size_t>(step.attributes.integer("count"));
  CHECK(shape(graph, step.inputs[parts]) == shape(graph, step.inputs[0]));
}

TEST_CASE("data-parallel ranks need an optimizer") {
  TrainingOptions options;
  options.precision = TrainingPrecision::Pure;
  options.loss = LossKind::Mean;
  options.optimizer.kind = OptimizerKind::None;
  ParallelPlan plan;
  plan.data = 2;
  CHECK_THROWS_AS(
      data_parallel_step(training_graph(small_graph("  - z = linear(x, 8)\n",
                                                    sizes(1, 1, StepKind::Training, {}, ElementType::Fp32)),
                                        options),
                         plan),
      GraphError);
}

}  // namespace
