# SPDX-License-Identifier: Apache-2.0
"""What torch.compile makes of the networks in compiled_networks.py, and how long their compiled steps take.

usage: compiled.py fusion OUT [--only REGEX] [--seconds N] [--workers N]
       compiled.py steps OUT [--only REGEX] [--seconds N] [--together N] [--quick]

fusion: rows with few layers, mode default: the source that Inductor generated and the GPU operations of three profiled steps
go to OUT/fusion-*.jsonl. Several processes compile at once; only one of them at a time builds, tunes kernels or is profiled.
steps: whole networks, a process for each mode: OUT/compiled_steps.jsonl, their sources in OUT/compiled_steps_sources.jsonl.
Several compile at once; once all of them have, they are measured one after the other, the others waiting.
compiled_tables.py makes the tables. Inductor's caches of graphs are off; those of kernels are on.
"""
import argparse
import contextlib
import fcntl
import gc
import json
import os
import re
import select
import signal
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
os.environ.setdefault("TORCHINDUCTOR_AUTOGRAD_CACHE", "0")
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # so that importing Inductor before a fork leaves CUDA alone
import torch
from torch.profiler import ProfilerActivity, profile, record_function
import compiled_networks
import timing


@contextlib.contextmanager
def device(path):
    """One process at a time on the device."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
            torch.cuda.synchronize()
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def tune_alone(path):
    """Inductor times the candidates of a kernel on the device: one process at a time."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    old = CachingAutotuner.benchmark_all_configs

    def alone(self, *args, **kw):
        with device(path):
            return old(self, *args, **kw)
    CachingAutotuner.benchmark_all_configs = alone


class Workers:
    """Processes that get ready side by side, and are then told to go one at a time."""

    def __init__(self, count, body):
        """body(index, wait): wait() says that the process is ready, or done, and gives True when it is told to go on."""
        self.children = []
        for index in range(count):
            down, up = os.pipe(), os.pipe()
            pid = os.fork()
            if pid == 0:
                for _, write, read in self.children:
                    os.close(write)
                    os.close(read)
                os.close(down[1])
                os.close(up[0])

                def wait():
                    os.write(up[1], b"r")
                    return os.read(down[0], 1) == b"g"
                try:
                    body(index, wait)
                except BaseException:
                    import traceback
                    traceback.print_exc()
                sys.stdout.flush()
                os._exit(0)
            os.close(down[0])
            os.close(up[1])
            self.children.append((pid, down[1], up[0]))
        self.alive = set(range(count))

    def ready(self, index, seconds):
        """Waits for the word of a process; one that ends or takes too long is given up."""
        if index not in self.alive:
            return False
        pid, _, read = self.children[index]
        if select.select([read], [], [], max(0.1, seconds))[0] and os.read(read, 1) == b"r":
            return True
        self.alive.discard(index)
        os.kill(pid, signal.SIGKILL)
        print("ERR gave up worker", index, flush=True)
        return False

    def go(self, index, seconds):
        if index not in self.alive:
            return False
        os.write(self.children[index][1], b"g")
        return self.ready(index, seconds)

    def end(self):
        for _, write, _ in self.children:
            os.close(write)
        for pid, _, read in self.children:
            os.waitpid(pid, 0)
            os.close(read)


def build(row):
    torch.manual_seed(0)
    torch.set_default_dtype(row.dtype)
    with torch.device("cuda"):
        model, inputs = row.build()
    torch.set_default_dtype(torch.float32)
    return (model.train() if row.train else model.eval()), inputs


def stepper(row, model, inputs, mode):
    """One step of the row in a mode of torch.compile."""
    function = torch.compile(model) if mode == "default" else torch.compile(model, mode=mode)
    graphs = mode in ("reduce-overhead", "max-autotune")

    def forward():
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()
        if row.autocast:
            with torch.autocast("cuda", torch.bfloat16):
                return function(*inputs)
        return function(*inputs)

    def train():
        for p in model.parameters():
            p.grad = None
        forward().backward()
    return train if row.train else forward


@contextlib.contextmanager
def generated():
    """The sources that Inductor generates meanwhile, in order."""
    from torch._inductor.graph import GraphLowering
    sources, old = [], GraphLowering.save_output_code
    GraphLowering.save_output_code = staticmethod(sources.append)
    try:
        yield sources
    finally:
        GraphLowering.save_output_code = old


def counters():
    from torch._dynamo.utils import counters as c
    return {"graphs": c["stats"].get("unique_graphs", 0), "breaks": sum(c["graph_break"].values()),
            "cudagraph_skips": c["inductor"].get("cudagraph_skips", 0)}


def gpu_steps(step, step_us, count=3):
    """[[[kernel, grid, block, us] in order] of each profiled step], others just before them."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        for _ in range(max(1, min(10, int(50e3 / step_us)))):
            step()
        for _ in range(count):
            with record_function("case:step"):
                step()
        torch.cuda.synchronize()
    runs = timing.kernels_by_case(timing.read_trace(prof)).get("step", [])
    return [[[timing.short_kernel(k[1], 110), timing.dims(k[3]), timing.dims(k[4]), round(k[2], 3)] for k in run] for run in runs]


# --- fusion ----------------------------------------------------------------------------------------------------------------
def fuse(row, lock):
    import torch._dynamo as dynamo
    dynamo.reset()
    dynamo.utils.counters.clear()
    gc.collect()
    with device(lock):
        torch.cuda.empty_cache()
        model, inputs = build(row)
    result = row.describe() | {"mode": "default", "parameter_count": len(list(model.parameters())),
                               "module_count": len(list(model.modules())),
                               "inputs": [[list(x.shape), str(x.dtype).split(".")[-1], list(x.stride())] for x in inputs]}
    with torch.set_grad_enabled(row.train):
        step = stepper(row, model, inputs, "default")
        start = time.perf_counter()
        with generated() as sources:
            step()
            torch.cuda.synchronize()
        result["first_call_s"] = round(time.perf_counter() - start, 2)
        result.update(counters())
        with device(lock):
            for _ in range(2):
                step()
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            result["gpu"] = gpu_steps(step, (time.perf_counter() - start) * 1e6)
    result["sources"] = sources
    return result


def fusion_worker(index, args, begin):
    rows = [r for r in compiled_networks.FUSION if re.search(args.only, r.name)][index::args.workers]
    lock = f"{args.out}/device.lock"
    tune_alone(lock)
    torch.set_grad_enabled(False)
    with device(lock):
        torch.zeros(1, device="cuda")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):  # the first profile of a process starts CUPTI
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
    with open(f"{args.out}/fusion-{index}.jsonl", "a") as out:
        if index == 0:
            out.write(json.dumps({"machine": timing.machine()}) + "\n")
        for row in rows:
            if time.time() - begin > args.seconds:
                print("left out, no time:", row.name, flush=True)
                continue
            start = time.time()
            try:
                result = fuse(row, lock)
                print(f"{time.time() - begin:5.0f} s {row.name:34s} first {result['first_call_s']:6.1f} s  graphs {result['graphs']} sources "
                      f"{len(result['sources'])} gpu {[len(s) for s in result['gpu']][:1]} took {time.time() - start:.1f}", flush=True)
            except Exception as error:
                import traceback
                traceback.print_exc()
                result = row.describe() | {"error": repr(error)[:400]}
                print("ERR", row.name, result["error"][:300], flush=True)
            out.write(json.dumps(result) + "\n")
            out.flush()


def fusion(args):
    begin, children = time.time(), []
    for index in range(args.workers):
        pid = os.fork()
        if pid == 0:
            try:
                fusion_worker(index, args, begin)
            except BaseException:
                import traceback
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(0)
        children.append(pid)
    while children and time.time() - begin < args.seconds + 40:
        done, _ = os.waitpid(-1, os.WNOHANG)
        if done:
            children.remove(done)
        time.sleep(0.05)
    for pid in children:
        print("ERR killed a worker", flush=True)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    print(f"fusion took {time.time() - begin:.0f} s", flush=True)


# --- steps -----------------------------------------------------------------------------------------------------------------
def burst_us(step, calls=5, rounds=10):
    """Host microseconds of one of a few calls that follow each other, from an empty queue."""
    values = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            step()
        values.append((time.perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return timing.summary(values, 2)


def prepare(row, mode, lock):
    """Builds and compiles: (what is known so far, the step, the sources)."""
    torch.set_grad_enabled(False)
    with device(lock):
        model, inputs = build(row)
        gc.collect()
        torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    result = row.describe() | {"mode": mode, "parameter_bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
                               "parameter_count": len(list(model.parameters())), "module_count": len(list(model.modules())),
                               "built_bytes": torch.cuda.memory_allocated()}
    step = stepper(row, model, inputs, mode)
    start = time.perf_counter()
    with generated() as sources:
        step()
        torch.cuda.synchronize()
    result["first_call_s"] = round(time.perf_counter() - start, 2)
    result.update(counters())
    with device(lock):
        for _ in range(5):
            step()
    return result, step, sources


def measure(result, step, quick, quiet_us):
    result["peak_bytes_whole"] = torch.cuda.max_memory_allocated()
    result["resident_bytes"] = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    result["peak_bytes"] = torch.cuda.max_memory_allocated()
    result["reserved_bytes"] = torch.cuda.memory_reserved()
    attempts = []
    while len(attempts) < (1 if quick else 4):  # until the host was quiet before and after; otherwise the quietest attempt
        timing.wait_for_quiet(quiet_us)
        attempt = {"python_loop_us": timing.python_loop_us(), "step_ms": timing.step_times(step, budget_s=0.2 if quick else 0.6),
                   "host_us": timing.host_times(step, budget_s=0.1 if quick else 0.3), "burst_us": burst_us(step)}
        attempt["python_loop_us"] = max(attempt["python_loop_us"], timing.python_loop_us())
        attempts.append(attempt)
        if attempt["python_loop_us"] <= quiet_us:
            break
    result.update(min(attempts, key=lambda a: a["python_loop_us"]))
    result["attempts"] = len(attempts)
    step_us = result["step_ms"]["median"] * 1e3
    result.update(timing.device_state(step, step_us))
    result.update(timing.counts(timing.trace_steps(step, step_us, shapes=False)))
    result["gpu"] = gpu_steps(step, step_us, 1)


def step_child(row, mode, args, quiet_us, wait):
    lock = f"{args.out}/device.lock"
    tune_alone(lock)
    start, sources = time.time(), []
    try:
        result, step, sources = prepare(row, mode, lock)
        compiled = time.time() - start
        if not wait():
            return
        start = time.time()
        measure(result, step, args.quick, quiet_us)
        print(f"{row.name:28s} {mode:26s} {result['step_ms']['median']:9.4f} ms  busy {result['gpu_busy_us'] / 1e3:8.4f}  host "
              f"{result['host_us']['median'] / 1e3:7.3f} burst {result['burst_us']['median'] / 1e3:7.3f} ops {result['gpu_ops']:.0f} first "
              f"{result['first_call_s']:.1f} s, loop {result['python_loop_us']} try {result['attempts']} took {compiled:.1f} + {time.time() - start:.1f}", flush=True)
    except Exception as error:
        import traceback
        traceback.print_exc()
        result = row.describe() | {"mode": mode, "error": repr(error)[:400]}
        print("ERR", row.name, mode, result["error"][:300], flush=True)
    with open(f"{args.out}/compiled_steps.jsonl", "a") as file:
        file.write(json.dumps(result) + "\n")
    with open(f"{args.out}/compiled_steps_sources.jsonl", "a") as file:
        file.write(json.dumps({"row": row.name, "mode": mode, "sources": sources}) + "\n")
    wait()


def step_times(args):
    os.environ["TORCH_WARM_POOL"] = "0"  # no pool of compilers before the forks
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
    quiet_us = 1.25 * min(best, args.loop_us)
    print(f"quiet: a loop of Python in up to {quiet_us:.0f} us", flush=True)
    gc.freeze()
    jobs = [(r, m) for r in compiled_networks.STEPS for m in r.modes if re.search(args.only, f"{r.name}/{m}")]
    while jobs and time.time() - begin < args.seconds:
        now, jobs = jobs[:args.together], jobs[args.together:]
        workers = Workers(len(now), lambda i, wait: step_child(*now[i], args, quiet_us, wait))
        limit = time.time() + 150
        for i in range(len(now)):
            workers.ready(i, limit - time.time())
        print(f"    {time.time() - begin:5.0f} s, {len(workers.alive)} of {len(now)} compiled", flush=True)
        for i in range(len(now)):
            if time.time() - begin < args.seconds + 20:
                workers.go(i, 40)
        workers.end()
        print(f"    {time.time() - begin:5.0f} s", flush=True)
    for row, mode in jobs:
        print("left out, no time:", row.name, mode, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fusion", "steps"])
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no row after this time")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--together", type=int, default=8, help="steps: so many processes compile at once")
    parser.add_argument("--loop-us", type=float, default=1e9, help="what a loop of Python takes at best, where known")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to try the scripts, not to publish")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    {"fusion": fusion, "steps": step_times}[args.what](args)


if __name__ == "__main__":
    main()
