// SPDX-License-Identifier: Apache-2.0
#include "sim/app/trace_use_commands.hpp"

#include <CLI/CLI.hpp>

namespace gpusim {
namespace {

const CLI::IsMember text_or_json({"text", "json"});

}  // namespace

TraceUseCommands::TraceUseCommands(CLI::App& trace) {
  add_calibrate(trace);
  add_diff(trace);
  add_import(trace);
  add_what_if(trace);
}

void TraceUseCommands::add_calibrate(CLI::App& trace) {
  calibrate_app_ =
      trace.add_subcommand("calibrate", "Host and hardware files from traces, and how far off they are");
  calibrate_app_->add_option("files", calibrate_.traces, "Profiler traces (.json, .json.gz)")
      ->type_name("FILE")
      ->required();
  calibrate_app_->add_option("--host-out", calibrate_.host_out, "Write a host file")->type_name("HOST.yaml");
  calibrate_app_->add_option("--hardware-out", calibrate_.hardware_out, "Write a hardware file")
      ->type_name("GPU.yaml");
  calibrate_app_->add_option("--host", calibrate_.host, "Host whose costs fill what the traces do not show")
      ->type_name("NAME");
  calibrate_app_->add_option("--hardware", calibrate_.hardware, "The traces' GPU, where they do not say")
      ->type_name("NAME");
}

void TraceUseCommands::add_diff(CLI::App& trace) {
  diff_app_ =
      trace.add_subcommand("diff", "Compare two traces, or a trace and a simulation, kernel by kernel");
  diff_app_->add_option("a", diff_.a, "Profiler trace (.json, .json.gz), or scenario (.yaml)")
      ->type_name("A")
      ->required();
  diff_app_->add_option("b", diff_.b, "What it is compared with")->type_name("B")->required();
  diff_app_->add_option("--variant-a", diff_.variant_a, "Variant of a scenario A (else its first)")
      ->type_name("NAME");
  diff_app_->add_option("--variant-b", diff_.variant_b, "Variant of a scenario B")->type_name("NAME");
  diff_app_->add_option("--steps", diff_.steps, "One step of each, all, or auto: all where there are as many")
      ->check(CLI::IsMember({"auto", "one", "all"}))
      ->type_name("WHICH");
  diff_app_->add_option("--rows", diff_.rows, "How many kernels the text lists")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  diff_app_->add_option("--format", diff_.format, "text or json")->check(text_or_json)->type_name("FORMAT");
}

void TraceUseCommands::add_import(CLI::App& trace) {
  import_app_ = trace.add_subcommand("import", "Turn a trace into a scenario file with explicit kernels");
  import_app_->add_option("file", import_.trace, "Profiler trace (.json, .json.gz)")
      ->type_name("FILE")
      ->required();
  import_app_->add_option("--out", import_.out, "Where the scenario goes (else standard output)")
      ->type_name("SCENARIO.yaml");
  import_app_->add_option("--hardware", import_.hardware, "The trace's GPU, where it does not say")
      ->type_name("NAME");
  import_app_
      ->add_option("--host-time", import_.host_time, "traced, auto, or a factor for the traced host times")
      ->type_name("HOW");
  import_app_->add_flag("--no-fold", import_.no_fold, "Write every launch, with its own times");
}

void TraceUseCommands::add_what_if(CLI::App& trace) {
  what_if_app_ = trace.add_subcommand("what-if", "Predict a traced step with something changed");
  what_if_app_->add_option("file", what_if_.trace, "Profiler trace (.json, .json.gz)")
      ->type_name("FILE")
      ->required();
  what_if_app_
      ->add_option("--change", what_if_.changes,
                   "cuda_graph[=piecewise], fuse[=PATTERN], compile, kernel=PATTERN:2x, host=2x, gpu=NAME, "
                   "no_sync, batch=2x; may be repeated")
      ->type_name("CHANGE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  what_if_app_->add_option("--hardware", what_if_.hardware, "The trace's GPU, where it does not say")
      ->type_name("NAME");
  what_if_app_->add_option("--host", what_if_.host, "Host whose costs compiled code has")->type_name("NAME");
  what_if_app_
      ->add_option("--host-time", what_if_.host_time, "auto, traced, or a factor for the traced host times")
      ->type_name("HOW");
  what_if_app_->add_option("--format", what_if_.format, "text or json")
      ->check(text_or_json)
      ->type_name("FORMAT");
}

bool TraceUseCommands::parsed() const {
  return calibrate_app_->parsed() || diff_app_->parsed() || import_app_->parsed() || what_if_app_->parsed();
}

ExitCode TraceUseCommands::run(const Surroundings& surroundings, const config::SearchPath& search) const {
  if (calibrate_app_->parsed()) return run_trace_calibrate(calibrate_, surroundings, search);
  if (diff_app_->parsed()) return run_trace_diff(diff_, surroundings);
  if (import_app_->parsed()) return run_trace_import(import_, surroundings, search);
  return run_trace_what_if(what_if_, surroundings, search);
}

}  // namespace gpusim
