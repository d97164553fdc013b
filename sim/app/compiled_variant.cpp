// SPDX-License-Identifier: Apache-2.0
#include "sim/app/compiled_variant.hpp"

#include <utility>

#include "sim/config/error.hpp"

namespace gpusim {
namespace {

template <class Body>
auto located(const NetworkWorkload& workload, const Variant& variant, const Body& body) {
  try {
    return body();
  } catch (const CompileError& error) {
    throw ConfigError(Diagnostic{
        .where = variant.compile_where, .path = "backend", .what = error.what(), .hint = error.hint()});
  } catch (const std::invalid_argument& error) {
    // The hardware or host file cannot price an op; the message says which.
    throw ConfigError(
        Diagnostic{.where = workload.where, .path = "workload.network", .what = error.what(), .hint = {}});
  }
}

}  // namespace

bool is_compiled(const Variant& variant) {
  return variant.compile && (variant.compile->backend.capture != CaptureKind::None ||
                             !variant.compile->breaks.empty() || !variant.compile->overrides.empty());
}

CompiledStep compile_variant(const NetworkWorkload& workload, const Variant& variant) {
  return located(workload, variant,
                 [&] { return compile_step(workload.graph, *variant.compile, *variant.hardware); });
}

CompiledProgram compiled_program(const NetworkWorkload& workload, const Variant& variant,
                                 const CompiledStep& step) {
  return located(workload, variant, [&] {
    return build_compiled(step, *variant.compile, *variant.hardware, *variant.host, HostOpMode::NoGrad);
  });
}

}  // namespace gpusim
