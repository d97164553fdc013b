// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/fit.hpp"

#include <fmt/format.h>
#include <nlopt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "models/cost/measurement_formulas.hpp"

namespace gpusim::calibrate {
namespace {

/// Families of cases and the parameters that their cases decide. Later ones may use what earlier ones fitted.
struct FamilyFit {
  std::string_view family;
  std::vector<std::string_view> parameters;
};

const std::vector<FamilyFit>& family_fits() {
  static const std::vector<FamilyFit> fits = {
      {"elementwise",
       {"pointwise.start", "pointwise.chain", "pointwise.memory_share", "pointwise.alu",
        "pointwise.division_start", "pointwise.division", "memory.l2_bytes_per_cycle", "memory.latency",
        "memory.latency_bytes", "memory.block_start", "pointwise.tail", "pointwise.tail_chain"}},
      {"unrolled", {"pointwise.unrolled_start", "pointwise.unrolled", "pointwise.unrolled_share"}},
      {"strided",
       {"pointwise.strided_start", "pointwise.strided", "pointwise.strided_wide_start",
        "pointwise.strided_wide", "pointwise.strided_cast_start", "pointwise.strided_cast"}},
      {"norm",
       {"norm.start", "norm.memory_share", "norm.row", "norm.element", "norm.block", "norm.block_element",
        "norm.block_cold", "norm.rms_start", "norm.rms_element", "norm.rms_block", "norm.blocks_per_sm"}},
      {"softmax",
       {"softmax.start", "softmax.warp_start", "softmax.latency", "softmax.warp", "softmax.warp_step",
        "softmax.registers", "softmax.shared_memory", "softmax.block_element"}},
      {"row_sum",
       {"row_sum.start", "row_sum.memory_share", "row_sum.sum_step", "row_sum.sum_cold",
        "row_sum.sum_warp_row", "row_sum.sum_block_row"}},
      {"argmax",
       {"row_sum.argmax_step", "row_sum.argmax_cold", "row_sum.argmax_element", "row_sum.argmax_warp_row",
        "row_sum.argmax_block_row"}},
      {"column_sum",
       {"column_sum.start", "column_sum.step", "column_sum.step_cold", "column_sum.split",
        "column_sum.split_each", "column_sum.block"}},
      {"full_sum",
       {"column_sum.full_share", "column_sum.full_start", "column_sum.full_each", "column_sum.full_element"}},
      {"norm_backward",
       {"norm_backward.start", "norm_backward.element", "norm_backward.block_element",
        "norm_backward.block_cold", "norm_backward.weights_row", "norm_backward.weights_share",
        "norm_backward.blocks_per_sm", "norm_backward.reduce"}},
      {"product",
       {"product.start", "product.latency", "product.split_reduce", "product.reduce_bytes",
        "product.peak_share", "product.tile", "product.step", "product.memory_share", "product.memory_blocks",
        "product.sharpness", "product.fp8", "product.fp16", "product.fp32", "product.misaligned"}},
      {"product gradient", {}},
      {"tf32 product",
       {"product.tf32", "product.tf32_start", "product.tf32_input_gradient",
        "product.tf32_input_gradient_start", "product.tf32_weight_gradient",
        "product.tf32_weight_gradient_start"}},
      {"batched_product", {}},
      {"convolution", {"product.convolution", "product.first_layer"}},
      {"convolution gradient",
       {"product.input_gradient", "product.input_gradient_start", "product.strided_gradient",
        "product.strided_gradient_start", "product.weight_gradient", "product.weight_gradient_start",
        "product.weight_gradient_split", "product.narrow_gradient", "product.first_layer_weight_gradient",
        "product.first_layer_weight_gradient_start"}},
      {"grouped_product", {"product.grouped", "product.grouped_memory", "product.grouped_setup"}},
      {"attention",
       {"attention.start", "attention.item", "attention.softmax", "attention.peak_share",
        "attention.causal_block", "attention.causal_tail", "attention.mask", "attention.ragged",
        "attention.backward_start", "attention.backward_item", "attention.backward_softmax",
        "attention.backward_peak_share", "attention.backward_streams"}},
      {"fp32 attention",
       {"attention.fp32_start", "attention.fp32_softmax", "attention.fp32_peak_share",
        "attention.fp32_causal_tail", "attention.fp32_backward_start", "attention.fp32_backward_softmax",
        "attention.fp32_backward_peak_share", "attention.fp32_backward_tail"}},
      {"attention_decode",
       {"attention.decode_start", "attention.decode_share", "attention.decode_cached",
        "attention.decode_reduce"}},
      {"cross_entropy", {"softmax.backward", "indexed.loss"}},
      {"indexed",
       {"indexed.gather_start", "indexed.gather_share", "indexed.gather_few_row", "indexed.scatter_row",
        "indexed.fill_share", "indexed.index_add", "indexed.index_start"}},
      {"batch_norm", {"layer.batch_norm_start", "layer.batch_norm_element", "layer.batch_norm_share"}},
      {"batch norm in training",
       {"batch_norm.start", "batch_norm.merge", "batch_norm.block", "batch_norm.step", "batch_norm.step_cold",
        "batch_norm.step_shared", "batch_norm.gradient_step", "batch_norm.gradient_cold",
        "batch_norm.gradient_shared", "batch_norm.apply_start", "batch_norm.apply_share",
        "batch_norm.gradient_share", "batch_norm.cached"}},
      {"group_norm", {"layer.moments_start", "layer.moments_step"}},
      {"pooling", {"layer.pool_element", "layer.pool_wave"}},
      {"routing",
       {"layer.top_k_start", "layer.top_k_row", "layer.sort_small", "layer.sort_block", "layer.sort_digit"}},
      {"copy", {"copy.transposed_cycles", "copy.cat_start", "copy.cat_share", "copy.random"}},
      {"optimizer", {"optimizer.fused_share", "optimizer.foreach_share"}},
      {"inductor",
       {"inductor.start", "inductor.latency", "inductor.memory_share", "inductor.block_start",
        "inductor.sharpness", "inductor.element", "inductor.persistent_start", "inductor.persistent_alu",
        "inductor.looped_start", "inductor.looped_loop", "inductor.loop", "inductor.welford",
        "inductor.softmax", "inductor.rows_per_sm", "inductor.column_start", "inductor.column_second"}},
      {"alu",
       {"alu.div", "alu.rsqrt", "alu.exp", "alu.log", "alu.sin", "alu.cos", "alu.tanh", "alu.erf",
        "alu.sigmoid", "alu.silu", "alu.gelu", "alu.gelu_tanh"}},
  };
  return fits;
}

const CalibrationParameter& parameter(std::string_view path) {
  for (const CalibrationParameter& one : calibration_parameters())
    if (path.size() == one.section.size() + 1 + one.key.size() &&
        path.substr(0, one.section.size()) == one.section && path.substr(one.section.size() + 1) == one.key)
      return one;
  throw std::logic_error("no calibration parameter '" + std::string(path) + "'");
}

using CaseList = std::vector<const KernelCase*>;

/// Twice as far from a start value costs as much as this many cases that are 10 % off.
constexpr double prior_weight = 0.02;
/// Parameters stay within this factor of where the search begins.
constexpr double widest_factor = 8;
constexpr int evaluations_most = 6000;

/// A square near zero, a line farther out: one odd case must not bend the fit.
double robust(double log_error) {
  constexpr double bend = 0.10;
  const double x = log_error / bend;
  return 2 * (std::sqrt(1 + x * x) - 1);
}

struct Search {
  GpuSpec gpu;
  const CaseList& cases;
  std::vector<const CalibrationParameter*> parameters;
  std::vector<double> start;  ///< Logarithms.

  void set(const std::vector<double>& x) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->get(*gpu.calibration) = std::exp(x[i]);
  }

  double loss(const std::vector<double>& x) {
    set(x);
    double sum = 0;
    for (const KernelCase* one : cases) sum += robust(std::log(predict_us(*one, gpu) / one->us));
    for (std::size_t i = 0; i < x.size(); ++i) sum += prior_weight * (x[i] - start[i]) * (x[i] - start[i]);
    return sum;
  }
};

double objective(unsigned count, const double* x, double*, void* search) {
  return static_cast<Search*>(search)->loss({x, x + count});
}

/// The device with `names` fitted to `cases`; `starts` searches, the first from the device's own values and
/// the others from values scrambled by `random` (all of them where `scramble`).
GpuSpec fit_family(const GpuSpec& base, const CaseList& cases, const std::vector<std::string_view>& names,
                   int starts, bool scramble, std::mt19937_64& random) {
  if (names.empty() || cases.empty()) return base;
  GpuSpec best = base;
  double best_loss = HUGE_VAL;
  for (int attempt = 0; attempt < starts; ++attempt) {
    Search search{base, cases, {}, {}};
    for (const std::string_view name : names) {
      search.parameters.push_back(&parameter(name));
      double value = std::log(search.parameters.back()->value(*base.calibration));
      if (scramble || attempt > 0) {
        // Box-Muller on raw draws: the library's distributions differ between implementations.
        const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
        value += 0.4 * std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
      }
      search.start.push_back(value);
    }
    const auto dimensions = static_cast<unsigned>(search.start.size());
    const std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)> optimizer(
        nlopt_create(NLOPT_LN_SBPLX, dimensions), &nlopt_destroy);
    std::vector<double> lower = search.start;
    std::vector<double> upper = search.start;
    for (double& x : lower) x -= std::log(widest_factor);
    for (double& x : upper) x += std::log(widest_factor);
    nlopt_set_min_objective(optimizer.get(), objective, &search);
    nlopt_set_lower_bounds(optimizer.get(), lower.data());
    nlopt_set_upper_bounds(optimizer.get(), upper.data());
    nlopt_set_initial_step1(optimizer.get(), 0.2);
    nlopt_set_ftol_rel(optimizer.get(), 1e-10);
    nlopt_set_xtol_rel(optimizer.get(), 1e-5);
    nlopt_set_maxeval(optimizer.get(), evaluations_most);
    std::vector<double> x = search.start;
    double loss = HUGE_VAL;
    // Whatever ends a search, x is the best point it has seen. A second one from there gets out of corners.
    for (int round = 0; round < 4; ++round) nlopt_optimize(optimizer.get(), x.data(), &loss);
    if (loss < best_loss) {
      best_loss = loss;
      search.set(x);
      best = search.gpu;
    }
  }
  return best;
}

/// Which fold each case is held out in.
std::vector<int> fold_of(const CaseList& cases, const FitOptions& options, std::mt19937_64& random) {
  std::map<std::string, int> groups;
  std::vector<std::string> keys;
  for (const KernelCase* one : cases) {
    keys.push_back(options.folds == Folds::Grouped ? one->group : one->name);
    groups.emplace(keys.back(), 0);
  }
  std::vector<std::string> order;
  for (const auto& [key, fold] : groups) order.push_back(key);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  for (std::size_t i = 0; i < order.size(); ++i) groups[order[i]] = static_cast<int>(i) % options.fold_count;
  std::vector<int> folds;
  for (const std::string& key : keys) folds.push_back(groups[key]);
  return folds;
}

/// How much a prediction follows each parameter: relative change over relative change.
std::vector<double> sensitivities(const KernelCase& one, GpuSpec gpu,
                                  const std::vector<std::string_view>& names) {
  constexpr double step = 0.05;
  const double before = predict_us(one, gpu);
  std::vector<double> result;
  for (const std::string_view name : names) {
    double& value = parameter(name).get(*gpu.calibration);
    const double kept = value;
    value *= 1 + step;
    result.push_back(std::abs(predict_us(one, gpu) / before - 1) / step);
    value = kept;
  }
  return result;
}

/// A held-out case says nothing of the formula if it hangs on a parameter that none of the other cases shows:
/// `gpu` has a random number there.
bool undetermined(const KernelCase& one, const CaseList& rest, const GpuSpec& gpu,
                  const std::vector<std::string_view>& names) {
  constexpr double matters = 0.10;
  const std::vector<double> own = sensitivities(one, gpu, names);
  std::vector<double> others(names.size(), 0);
  for (const KernelCase* other : rest) {
    const std::vector<double> theirs = sensitivities(*other, gpu, names);
    for (std::size_t i = 0; i < names.size(); ++i) others[i] = std::max(others[i], theirs[i]);
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (own[i] > matters && others[i] < matters) return true;
  return false;
}

CaseResult result_of(const KernelCase& one, const GpuSpec& gpu) {
  CaseResult result;
  result.name = one.name;
  result.measured_us = one.us;
  result.fitted_us = predict_us(one, gpu);
  result.measured_ops = one.gpu_ops;
  result.predicted_ops = predict_gpu_ops(one, gpu);
  return result;
}

double error(const CaseResult& one, bool held_out) {
  return (held_out ? one.held_out_us : one.fitted_us) / one.measured_us - 1;
}

}  // namespace

Errors3 errors_of(const std::vector<CaseResult>& cases, bool held_out) {
  std::vector<double> values;
  for (const CaseResult& one : cases)
    if (!held_out || one.held_out_us > 0) values.push_back(std::abs(error(one, held_out)));
  Errors3 errors;
  errors.n = static_cast<int>(values.size());
  if (values.empty()) return errors;
  errors.median = median(values);
  errors.p90 = percentile(values, 90);
  errors.max = *std::max_element(values.begin(), values.end());
  return errors;
}

std::vector<FamilyResult> evaluate(const GpuSpec& gpu, const KernelTable& table) {
  std::vector<FamilyResult> results;
  for (const FamilyFit& family : family_fits()) {
    FamilyResult result;
    result.family = family.family;
    result.parameters = static_cast<int>(family.parameters.size());
    for (const KernelCase& one : table.cases)
      if (one.family == family.family) result.cases.push_back(result_of(one, gpu));
    if (!result.cases.empty()) results.push_back(std::move(result));
  }
  return results;
}

FitResult fit(const GpuSpec& base, const KernelTable& table, const FitOptions& options) {
  FitResult result;
  result.gpu = base;
  if (!base.calibration) throw NoCalibrationError("'" + base.key + "' has no calibration to start from");
  std::mt19937_64 random(options.seed);
  const auto wanted = [&](std::string_view family) {
    return options.families.empty() ||
           std::find(options.families.begin(), options.families.end(), family) != options.families.end();
  };
  for (const FamilyFit& family : family_fits()) {
    if (!wanted(family.family)) continue;
    CaseList cases;
    for (const KernelCase& one : table.cases)
      if (one.family == family.family) cases.push_back(&one);
    if (cases.empty()) {
      result.skipped.emplace_back(family.family);
      continue;
    }
    const GpuSpec before = result.gpu;
    result.gpu = fit_family(before, cases, family.parameters, options.starts, false, random);

    FamilyResult one;
    one.family = family.family;
    one.parameters = static_cast<int>(family.parameters.size());
    for (const KernelCase* kernel_case : cases) one.cases.push_back(result_of(*kernel_case, result.gpu));
    if (options.cross_validate) {
      const std::vector<int> folds = fold_of(cases, options, random);
      for (int fold = 0; fold < options.fold_count; ++fold) {
        CaseList rest;
        for (std::size_t i = 0; i < cases.size(); ++i)
          if (folds[i] != fold) rest.push_back(cases[i]);
        if (rest.size() == cases.size() || rest.empty()) continue;
        const GpuSpec without = fit_family(before, rest, family.parameters, 2 * options.starts, true, random);
        for (std::size_t i = 0; i < cases.size(); ++i)
          if (folds[i] == fold && !undetermined(*cases[i], rest, result.gpu, family.parameters))
            one.cases[i].held_out_us = predict_us(*cases[i], without);
      }
    }
    if (options.progress) {
      const Errors3 errors = errors_of(one.cases, options.cross_validate);
      options.progress(fmt::format("{}: {} cases, median {:.1f} %, p90 {:.1f} %", one.family,
                                   one.cases.size(), 100 * errors.median, 100 * errors.p90));
    }
    result.families.push_back(std::move(one));
  }
  return result;
}

std::string to_text(const std::vector<FamilyResult>& families, bool held_out, int worst) {
  std::string text = fmt::format("{:<18} {:>5} {:>5}  {:>7} {:>7} {:>7}  {}\n", "family", "cases", "par.",
                                 "median", "p90", "max", "GPU ops right");
  std::vector<CaseResult> all;
  const auto line = [&](const std::string& name, const std::vector<CaseResult>& cases, int parameters) {
    const Errors3 e = errors_of(cases, held_out);
    int counted = 0;
    int right = 0;
    for (const CaseResult& one : cases)
      if (one.measured_ops > 0) {
        ++counted;
        right += one.measured_ops == one.predicted_ops ? 1 : 0;
      }
    return fmt::format("{:<18} {:>5} {:>5}  {:>5.1f} % {:>5.1f} % {:>5.1f} %  {} of {}\n", name, e.n,
                       parameters, 100 * e.median, 100 * e.p90, 100 * e.max, right, counted);
  };
  int parameters = 0;
  for (const FamilyResult& family : families) {
    text += line(family.family, family.cases, family.parameters);
    parameters += family.parameters;
    all.insert(all.end(), family.cases.begin(), family.cases.end());
  }
  text += line("all", all, parameters);
  if (worst > 0) {
    std::erase_if(all, [&](const CaseResult& one) { return held_out && one.held_out_us <= 0; });
    std::stable_sort(all.begin(), all.end(), [&](const CaseResult& a, const CaseResult& b) {
      return std::abs(error(a, held_out)) > std::abs(error(b, held_out));
    });
    text += "\nworst cases\n";
    for (std::size_t i = 0; i < std::min(all.size(), static_cast<std::size_t>(worst)); ++i)
      text += fmt::format("  {:>+6.1f} %  {:<44} measured {:>10.3f} us, predicted {:>10.3f} us\n",
                          100 * error(all[i], held_out), all[i].name, all[i].measured_us,
                          held_out ? all[i].held_out_us : all[i].fitted_us);
  }
  return text;
}

}  // namespace gpusim::calibrate
