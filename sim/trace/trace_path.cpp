// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/trace_path.hpp"

#include <algorithm>
#include <functional>

namespace gpusim {
namespace {

using Edge = TraceDependencies::Edge;

/// By how much the run would be shorter if some edges had no weight, the others and their order as they are.
Picoseconds gain_without(const TraceDependencies& dependencies,
                         const std::function<bool(const Edge&)>& without) {
  std::vector<Picoseconds> earliest(dependencies.size(), dependencies.begin());
  Picoseconds end = dependencies.begin();
  for (const Edge& edge : dependencies.edges()) {
    const Picoseconds weight = without(edge) ? Picoseconds(0) : edge.weight;
    earliest[edge.to] = std::max(earliest[edge.to], earliest[edge.from] + weight);
    end = std::max(end, earliest[edge.to]);
  }
  return dependencies.end() - end;
}

/// By moment: how late it could be without making the run longer.
std::vector<Picoseconds> latest(const TraceDependencies& dependencies) {
  std::vector<Picoseconds> result(dependencies.size(), dependencies.end());
  const std::vector<Edge>& edges = dependencies.edges();
  for (std::size_t i = edges.size(); i-- > 0;)
    result[edges[i].from] = std::min(result[edges[i].from], result[edges[i].to] - edges[i].weight);
  return result;
}

bool is_run(TraceResource resource) {
  return resource == TraceResource::Kernel || resource == TraceResource::Communication ||
         resource == TraceResource::Copy;
}

/// The op whose running an edge stands for.
std::uint32_t running_op(const TraceDependencies& dependencies, const Edge& edge) {
  if (!is_run(edge.resource) || !dependencies.is_op(edge.from)) return trace_none;
  return (edge.from - dependencies.op_start(0)) / 2;
}

std::vector<TracePathKernel> kernels_of(const Trace& trace, const TraceDependencies& dependencies,
                                        const TracePath& path, std::size_t gains) {
  std::vector<TracePathKernel> all(trace.names.size());
  std::vector<std::vector<Picoseconds>> slacks(trace.names.size());
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    TracePathKernel& kernel = all[trace.ops[i].name];
    kernel.name = trace.ops[i].name;
    ++kernel.count;
    kernel.total += trace.ops[i].duration();
    slacks[kernel.name].push_back(path.op_slack[i]);
  }
  for (const TracePathPiece& piece : path.pieces) {
    if (!is_run(piece.resource)) continue;
    TracePathKernel& kernel = all[trace.ops[piece.op].name];
    ++kernel.on_path;
    kernel.path += piece.duration();
  }
  for (TracePathKernel& kernel : all) {
    if (kernel.name == trace_none) continue;
    std::vector<Picoseconds>& slack = slacks[kernel.name];
    const auto middle = slack.begin() + static_cast<std::ptrdiff_t>(slack.size() / 2);
    std::nth_element(slack.begin(), middle, slack.end());
    kernel.median_slack = *middle;
    kernel.least_slack = *std::min_element(slack.begin(), middle + 1);
    kernel.gain = kernel.path;
  }
  std::erase_if(all, [](const TracePathKernel& kernel) { return kernel.name == trace_none; });
  std::sort(all.begin(), all.end(), [&](const TracePathKernel& a, const TracePathKernel& b) {
    if (a.path != b.path) return a.path > b.path;
    if (a.total != b.total) return a.total > b.total;
    return trace.names[a.name] < trace.names[b.name];
  });
  for (std::size_t i = 0; i < std::min(gains, all.size()); ++i) {
    if (all[i].path == Picoseconds(0)) break;
    all[i].gain = gain_without(dependencies, [&](const Edge& edge) {
      const std::uint32_t op = running_op(dependencies, edge);
      return op != trace_none && trace.ops[op].name == all[i].name;
    });
  }
  return all;
}

}  // namespace

TracePath trace_path(const Trace& trace, std::size_t gains) {
  const TraceLinks links(trace);
  const TraceDependencies dependencies(trace, links);
  TracePath path;
  path.begin = dependencies.begin();
  path.end = dependencies.end();
  path.op_slack.assign(trace.ops.size(), Picoseconds(0));
  if (dependencies.size() == 1) return path;  // no call, no op

  path.pieces = dependencies.walk_back(dependencies.last(), path.begin);
  std::reverse(path.pieces.begin(), path.pieces.end());
  for (const TracePathPiece& piece : path.pieces)
    path.by_resource[static_cast<std::size_t>(piece.resource)] += piece.duration();

  const std::vector<Picoseconds> late = latest(dependencies);
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
    path.op_slack[i] = late[dependencies.op_end(i)] - trace.ops[i].end;
  path.kernels = kernels_of(trace, dependencies, path, gains);
  for (std::size_t i = 0; i < trace_resource_count; ++i) {
    if (path.by_resource[i] == Picoseconds(0)) continue;
    path.gain[i] = gain_without(
        dependencies, [&](const Edge& edge) { return edge.resource == static_cast<TraceResource>(i); });
  }
  return path;
}

}  // namespace gpusim
