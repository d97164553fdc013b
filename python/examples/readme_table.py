# SPDX-License-Identifier: Apache-2.0
# The table of the README by its figures: Llama-8B decode as profiled, without the profiler, and as one CUDA graph.
import gpusim

report = gpusim.run("scenarios/llama8b_decode.yaml")
runs = report.runs


def row(name, cell):
    print(f"{name:<17}" + "".join(f"{cell(run):<19}" for run in runs).rstrip())


row("per step", lambda run: run.variant)
row("step time", lambda run: f"{run.step_time_us / 1e3:.3f} ms")
row("speed-up", lambda run: f"{runs[0].step_time_us / run.step_time_us:.2f}x")
row("GPU busy", lambda run: f"{run.gpu_busy_us / 1e3:.3f} ms  {100 * run.gpu_utilization:.1f} %")
row("GPU idle", lambda run: f"{sum(run.idle_us.values()) / 1e3:.3f} ms  {100 - 100 * run.gpu_utilization:.1f} %")
row("regime", lambda run: run.regime)
row("GPU ops", lambda run: f"{run.gpu_ops:.0f}")
row("kernel launches", lambda run: f"{run.kernel_launches:.0f}")
