# SPDX-License-Identifier: Apache-2.0
"""Step times, operation counts and memory of the networks in networks.py.

usage: steps.py OUT [--only REGEX] [--seconds N] [--quick]

Each row runs in a process of its own (forked before CUDA starts, so that imports are paid once). Results are appended to
OUT/steps.jsonl as they come; the operations of one eager step go to OUT/ops/ROW.csv. tables.py makes the tables.
"""
import argparse
import csv
import gc
import json
import os
import re
import signal
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import networks
import timing


def flop_formulas():
    """What torch's counter lacks: attention with grouped heads, the fused inference attention layer, grouped products.
    Attention is counted in full, causal or not, as torch counts it."""
    def attention(q, k, v, *args, out_shape=None, **kwargs):
        return 2 * q[0] * q[1] * q[2] * k[2] * (q[3] + v[3])

    def attention_layer(q, k, v, *args, out_shape=None, **kwargs):
        b, t, d = q
        return 8 * b * t * d * d + 4 * b * t * k[1] * d

    def grouped(x, w, *args, out_shape=None, **kwargs):
        return 2 * x[0] * w[-2] * w[-1]
    aten = torch.ops.aten
    table = {"_scaled_dot_product_cudnn_attention": attention, "_scaled_dot_product_flash_attention": attention,
             "_scaled_dot_product_efficient_attention": attention, "_native_multi_head_attention": attention_layer, "_grouped_mm": grouped}
    return {getattr(aten, name): formula for name, formula in table.items() if hasattr(aten, name)}


def measure(row, mode, out, quick, quiet_us):
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    free_before = torch.cuda.mem_get_info()[0]
    torch.set_default_dtype(row.dtype)
    with torch.device("cuda"):
        model, inputs = row.build()
    torch.set_default_dtype(torch.float32)
    model = model.eval()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    result = {"workload": row.name, "network": row.network, "batch": row.batch, "length": row.length, "context": row.context,
              "dtype": str(row.dtype).split(".")[-1], "mode": mode, "note": row.note,
              "parameters": sum(p.numel() for p in model.parameters()), "built_bytes": torch.cuda.memory_allocated()}
    if hasattr(row, "sets"):
        result["sets"] = row.sets
    torch.cuda.reset_peak_memory_stats()

    def eager():
        return model(*inputs)
    start = time.perf_counter()
    eager()
    torch.cuda.synchronize()
    result["first_call_s"] = round(time.perf_counter() - start, 3)
    if mode == "eager":
        def step():
            model(*inputs)
    else:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                eager()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = eager()
        step = graph.replay
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    result["peak_bytes_whole"] = torch.cuda.max_memory_allocated()
    result["resident_bytes"] = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    result["peak_bytes"] = torch.cuda.max_memory_allocated()
    result["reserved_bytes"] = torch.cuda.memory_reserved()
    result["device_bytes"] = free_before - torch.cuda.mem_get_info()[0]
    attempts = []
    while len(attempts) < (1 if quick else 3):  # until the host was quiet before and after; otherwise the quietest attempt
        timing.wait_for_quiet(quiet_us)
        attempt = {"probe": timing.host_probe(), "step_ms": timing.step_times(step, budget_s=0.2 if quick else 1.2),
                   "host_us": timing.host_times(step, budget_s=0.1 if quick else 0.7)}
        attempt["probe_after"] = timing.host_probe()
        attempts.append(attempt)
        if max(attempt[p]["python_loop_us"] for p in ("probe", "probe_after")) <= quiet_us:
            break
    result.update(min(attempts, key=lambda a: max(a[p]["python_loop_us"] for p in ("probe", "probe_after"))))
    result["attempts"] = len(attempts)
    result.update(timing.device_state(step, result["step_ms"]["median"] * 1e3))
    if mode == "eager":
        try:
            from torch.utils.flop_counter import FlopCounterMode
            with FlopCounterMode(display=False, custom_mapping=flop_formulas()) as counter:
                eager()
            result["flops"] = counter.get_total_flops()
        except Exception as error:
            result["flops"], result["flops_error"] = None, repr(error)[:200]
    events = timing.trace_steps(step, result["step_ms"]["median"] * 1e3, shapes=mode == "eager")
    result.update(timing.counts(events))
    if mode == "eager":
        with open(f"{out}/ops/{row.name}.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(timing.OPERATION_COLUMNS)
            writer.writerows(timing.operations(events))
    return result


def child(row, mode, out, quick, quiet_us):
    try:
        result = measure(row, mode, out, quick, quiet_us)
    except BaseException as error:
        import traceback
        traceback.print_exc()
        result = {"workload": row.name, "mode": mode, "error": repr(error)[:400]}
    with open(f"{out}/steps.jsonl", "a") as file:
        file.write(json.dumps(result) + "\n")
    if "error" in result:
        print("ERR", row.name, mode, result["error"][:200], flush=True)
    else:
        print(f"{row.name:30s} {mode:9s} {result['step_ms']['median']:9.4f} ms  busy {result['gpu_busy_us'] / 1e3:9.4f}  host "
              f"{result['host_us']['median'] / 1e3:8.3f}  ops {result['gpu_ops']:.0f} try {result['attempts']} peak {result['peak_bytes'] / 2**30:.2f} GiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no row after this time")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to try the scripts, not to publish")
    args = parser.parse_args()
    os.makedirs(f"{args.out}/ops", exist_ok=True)
    begin = time.time()
    best_us = min(timing.python_loop_us() for _ in range(100))
    quiet_us = 1.25 * best_us
    print(f"loop of Python: {best_us} us at best; quiet is up to {quiet_us:.0f}", flush=True)
    gc.freeze()
    try:
        import torchvision  # paid once, before the forks
    except Exception as error:
        print("no torchvision:", error)
    for row in networks.ROWS:
        for mode in row.modes:
            if not re.search(args.only, f"{row.name}/{mode}"):
                continue
            if time.time() - begin > args.seconds:
                print("left out, no time:", row.name, mode, flush=True)
                continue
            start = time.time()
            pid = os.fork()
            if pid == 0:
                code = 0
                try:
                    child(row, mode, args.out, args.quick, quiet_us)
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            while True:
                done, _ = os.waitpid(pid, os.WNOHANG)
                if done:
                    break
                if time.time() - start > 60:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    print("ERR killed after 60 s", row.name, mode, flush=True)
                    break
                time.sleep(0.02)
            print(f"    {time.time() - begin:5.0f} s, row took {time.time() - start:.1f}", flush=True)


if __name__ == "__main__":
    main()
