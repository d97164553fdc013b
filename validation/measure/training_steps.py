# SPDX-License-Identifier: Apache-2.0
"""Training steps of the rows in training_networks.py: step times, GPU operations in order, FLOPs and memory.

usage: training_steps.py OUT [--only REGEX] [--seconds N] [--together N] [--gb N] [--quick]

Each row and mode runs in a process of its own. Several get ready side by side (build, compile, warm up); then they are measured one
after the other, the others waiting. Results are appended to OUT/training_steps.jsonl as they come; the operations of one step go to
OUT/ops/ROW.MODE.csv. training_table.py makes the table.
"""
import argparse
import csv
import gc
import json
import os
import re
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
import torch
import compiled
import timing
import training_networks

BF16 = torch.bfloat16


def optimizer_of(row, parameters):
    kind, _, loop = row.optimizer.partition("_")
    how = {"fused": {"fused": True}, "foreach": {"foreach": True}, "for": {"foreach": False}}
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9 if loop == "momentum" else 0.0, foreach=True)
    return torch.optim.AdamW(parameters, lr=1e-4, **how[loop])


def build(row):
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.set_default_dtype(BF16 if row.precision == "pure" else torch.float32)
    with torch.device("cuda"):
        inner, inputs, labels = row.build()
    torch.set_default_dtype(torch.float32)
    model = training_networks.Loss(inner) if row.optimizer else inner
    return (model.train() if row.optimizer else model.eval()), inputs, labels


def stepper(row, mode, model, inputs, labels):
    """(the step, forward and backward alone)"""
    function = model if mode == "eager" else torch.compile(model) if mode == "default" else torch.compile(model, mode=mode)
    graphs = mode == "reduce-overhead"
    if not row.optimizer:
        def infer():
            with torch.no_grad():
                function(*inputs)
        return infer, infer
    optimizer = optimizer_of(row, model.parameters())

    def forward_backward():
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast("cuda", BF16, enabled=row.precision == "autocast"):
            loss = function(inputs, labels)
        loss.backward()

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(row.accumulation):
            forward_backward()
        if row.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return step, forward_backward


def child(row, mode, args, quiet_us, wait):
    lock = f"{args.out}/device.lock"
    compiled.tune_alone(lock)
    start = time.time()
    try:
        with compiled.device(lock):
            model, inputs, labels = build(row)
            gc.collect()
            torch.cuda.empty_cache()
        result = {"row": row.name, "mode": mode, "sets": row.sets(), "built_bytes": torch.cuda.memory_allocated(),
                  "parameters": sum(p.numel() for p in model.parameters())}
        step, forward_backward = stepper(row, mode, model, inputs, labels)
        first = time.perf_counter()
        step()
        torch.cuda.synchronize()
        result["first_call_s"] = round(time.perf_counter() - first, 2)
        with compiled.device(lock):
            for _ in range(3):
                step()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        ready = time.time() - start
        if not wait():
            return
        start = time.time()
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        result["resident_bytes"] = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
        attempts = []
        while len(attempts) < (1 if args.quick else 3):
            timing.wait_for_quiet(quiet_us)
            attempt = {"python_loop_us": timing.python_loop_us(),
                       "step_ms": timing.step_times(step, per=3, budget_s=0.2 if args.quick else 1.0, warm=4)}
            attempt["python_loop_us"] = max(attempt["python_loop_us"], timing.python_loop_us())
            attempts.append(attempt)
            if attempt["python_loop_us"] <= quiet_us:
                break
        result.update(min(attempts, key=lambda a: a["python_loop_us"]))
        result["attempts"] = len(attempts)
        step_us = result["step_ms"]["median"] * 1e3
        result.update(timing.device_state(step, step_us))
        if mode == "eager" and row.optimizer:
            from torch.utils.flop_counter import FlopCounterMode
            import steps
            with FlopCounterMode(display=False, custom_mapping={k: v for k, v in steps.flop_formulas().items()}) as counter:
                for _ in range(row.accumulation):
                    forward_backward()
            result["flops"] = counter.get_total_flops()
            model.zero_grad(set_to_none=True)
            step()
            torch.cuda.synchronize()
        events = timing.trace_steps(step, step_us, shapes=True)
        result.update(timing.counts(events))
        with open(f"{args.out}/ops/{row.name}.{mode}.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(timing.OPERATION_COLUMNS)
            writer.writerows(timing.operations(events))
        print(f"{row.name:34s} {mode:16s} {result['step_ms']['median']:9.4f} ms  busy {result['gpu_busy_us'] / 1e3:9.4f}  ops "
              f"{result['gpu_ops']:.0f} peak {result['peak_bytes'] / 1e9:.3f} GB first {result['first_call_s']} s loop "
              f"{result['python_loop_us']} try {result['attempts']} took {ready:.1f} + {time.time() - start:.1f}", flush=True)
    except Exception as error:
        import traceback
        traceback.print_exc()
        result = {"row": row.name, "mode": mode, "error": repr(error)[:400]}
        print("ERR", row.name, mode, result["error"][:300], flush=True)
    with open(f"{args.out}/training_steps.jsonl", "a") as file:
        file.write(json.dumps(result) + "\n")
    wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no row after this time")
    parser.add_argument("--together", type=int, default=14, help="so many processes get ready at once")
    parser.add_argument("--gb", type=float, default=125, help="as long as they hold less than this")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to try the scripts, not to publish")
    args = parser.parse_args()
    os.makedirs(f"{args.out}/ops", exist_ok=True)
    os.environ["TORCH_WARM_POOL"] = "0"
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    import torch._inductor.compile_fx
    import torch._inductor.codegen.triton
    try:
        import torchvision
    except Exception as error:
        print("no torchvision:", error)
    begin, best = time.time(), 1e9
    while time.time() - begin < 3:
        best = min(best, timing.python_loop_us())
        time.sleep(0.02)
    quiet_us = 1.25 * best
    print(f"quiet: a loop of Python in up to {quiet_us:.0f} us", flush=True)
    gc.freeze()
    jobs = [(r, m) for r in training_networks.ROWS for m in r.modes if re.search(args.only, f"{r.name}/{m}")]
    while jobs and time.time() - begin < args.seconds:
        now, held = [], 0.0
        while jobs and len(now) < args.together and (not now or held + jobs[0][0].gb <= args.gb):
            held += jobs[0][0].gb
            now.append(jobs.pop(0))
        workers = compiled.Workers(len(now), lambda i, wait: child(*now[i], args, quiet_us, wait))
        limit = time.time() + 200
        for i in range(len(now)):
            workers.ready(i, limit - time.time())
        print(f"    {time.time() - begin:5.0f} s, {len(workers.alive)} of {len(now)} ready", flush=True)
        for i in range(len(now)):
            if time.time() - begin < args.seconds + 20:
                workers.go(i, 60)
        workers.end()
        print(f"    {time.time() - begin:5.0f} s", flush=True)
    for row, mode in jobs:
        print("left out, no time:", row.name, mode, flush=True)


if __name__ == "__main__":
    main()
