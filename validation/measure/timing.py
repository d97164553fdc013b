# SPDX-License-Identifier: Apache-2.0
"""Clocks and profiler traces: what the measuring scripts share."""
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel")
GPU_CATEGORIES = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * (len(values) - 1) + 0.5))]


def summary(values, digits=3):
    """Median, 10th and 90th percentile, count."""
    return {"median": round(statistics.median(values), digits), "p10": round(quantile(values, 0.1), digits),
            "p90": round(quantile(values, 0.9), digits), "n": len(values)}


def machine():
    """What was measured on: device, driver, versions, processor."""
    import platform
    p = torch.cuda.get_device_properties(0)

    def read(command):
        try:
            return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20).stdout.strip()
        except Exception as error:
            return repr(error)

    def version(package):
        try:
            return __import__(package).__version__
        except Exception:
            return None
    return {"device": p.name, "sms": p.multi_processor_count, "memory": p.total_memory, "l2": getattr(p, "L2_cache_size", None),
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "torchvision": version("torchvision"), "triton": version("triton"), "python": platform.python_version(),
            "cpu": read("grep -m1 'model name' /proc/cpuinfo | cut -d: -f2"), "cpu_mhz": read("grep -m1 'cpu MHz' /proc/cpuinfo | cut -d: -f2"),
            "cores": os.cpu_count(), "kernel": platform.release(),
            "smi": read("nvidia-smi --query-gpu=clocks.max.sm,clocks.max.mem,power.limit,driver_version,clocks.sm,temperature.gpu --format=csv,noheader")}


def hot_loop_us(f, calls=300, rounds=5, warm=30):
    """Host microseconds of one call of f in a loop of nothing else, the device queue never full."""
    for _ in range(warm):
        f()
    out = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            f()
        out.append((time.perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return statistics.median(out)


def python_loop_us():
    """Microseconds of a fixed loop of Python alone: how fast the host is just now, and nothing else."""
    def once():
        start, x = time.perf_counter(), 0
        for i in range(10000):
            x += i & 7
        return (time.perf_counter() - start) * 1e6
    return round(statistics.median(once() for _ in range(5)), 1)


def host_probe():
    """The loop of Python, and a hot loop of the cheapest framework operation that launches a kernel."""
    a, b = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    return {"python_loop_us": python_loop_us(), "add_us": round(hot_loop_us(lambda: torch.add(a, b, out=a), calls=100, rounds=5), 3)}


def wait_for_quiet(limit_us, seconds=3.0):
    """Virtual machines have spells in which a processor runs at half its speed: wait for the end of one."""
    begin = time.perf_counter()
    while python_loop_us() > limit_us and time.perf_counter() - begin < seconds:
        time.sleep(0.05)


def device_state(step, step_us):
    """Clock in MHz and power in watts with steps in flight (None where NVML is missing)."""
    try:
        for _ in range(max(3, min(500, int(100e3 / step_us)))):
            step()
        clock, power = torch.cuda.clock_rate(), torch.cuda.power_draw() / 1000
        torch.cuda.synchronize()
        return {"sm_mhz": clock, "watts": round(power)}
    except Exception:
        torch.cuda.synchronize()
        return {"sm_mhz": None, "watts": None}


def step_times(step, per=5, budget_s=1.5, warm=8):
    """Milliseconds of a step: groups of `per` steps, one synchronisation after each group, divided by `per`."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    one = (time.perf_counter() - start) / warm
    groups = max(8, min(40, int(budget_s / (one * per))))
    out = []
    for _ in range(groups):
        start = time.perf_counter()
        for _ in range(per):
            step()
        torch.cuda.synchronize()
        out.append((time.perf_counter() - start) / per * 1e3)
    return summary(out, 5) | {"per": per}


def host_times(step, budget_s=0.8):
    """Host microseconds of one step on an empty queue: from the call to its return, no synchronisation inside."""
    out = []
    start = time.perf_counter()
    while len(out) < 10 or (len(out) < 60 and time.perf_counter() - start < budget_s):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        out.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return summary(out, 2)


def read_trace(prof):
    path = os.path.join(tempfile.gettempdir(), f"trace{os.getpid()}.json")
    prof.export_chrome_trace(path)
    with open(path) as file:
        trace = json.load(file)
    os.remove(path)
    return trace["traceEvents"]


def trace_steps(step, step_us, steps=3, shapes=True):
    """Profiles `steps` steps, with others just before them so that clocks are those of steady work: the trace's events.

    Operations of the device and calls of the runtime outside the marked steps are left out.
    """
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):  # the first profile of a process starts CUPTI
        step()
        torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=shapes) as prof:
        for _ in range(max(1, min(20, int(100e3 / step_us)))):
            step()
        for i in range(steps):
            with record_function(f"step:{i}"):
                step()
        torch.cuda.synchronize()
    events = read_trace(prof)
    marks = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("step:")]
    first, last = min(e["ts"] for e in marks), max(e["ts"] + e["dur"] for e in marks)
    inside = {e["args"].get("correlation") for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and first <= e["ts"] <= last}

    def kept(e):
        if e.get("cat") in GPU_CATEGORIES:
            return e["args"].get("correlation") in inside
        return e.get("cat") not in ("cuda_runtime", "cuda_driver") or first <= e["ts"] <= last
    return [e for e in events if kept(e)]


def counts(events, steps=3):
    """Per step: busy time (union of GPU operations), operations by kind, launches, synchronising calls, top kernels."""
    gpu = sorted((e["ts"], e["dur"], e["name"], GPU_CATEGORIES[e["cat"]]) for e in events if e.get("cat") in GPU_CATEGORIES)
    busy, end = 0.0, -1.0
    for ts, dur, _, _ in gpu:
        busy += max(0.0, ts + dur - max(ts, end))
        end = max(end, ts + dur)
    kinds = {k: sum(g[3] == k for g in gpu) / steps for k in ("kernel", "memset", "memcpy")}
    calls = {}
    for e in events:
        if e.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls[e["name"]] = calls.get(e["name"], 0) + 1
    top = {}
    for _, dur, name, _ in gpu:
        entry = top.setdefault(name, [0, 0.0])
        entry[0] += 1
        entry[1] += dur
    return {"gpu_busy_us": round(busy / steps, 2), "gpu_sum_us": round(sum(g[1] for g in gpu) / steps, 2),
            "gpu_ops": round(len(gpu) / steps, 2), "kernels": round(kinds["kernel"], 2), "memsets": round(kinds["memset"], 2),
            "memcpys": round(kinds["memcpy"], 2), "kernel_launches": round(sum(calls.get(n, 0) for n in LAUNCHES) / steps, 2),
            "graph_launches": round(calls.get("cudaGraphLaunch", 0) / steps, 2),
            "syncs": round((calls.get("cudaStreamSynchronize", 0) + calls.get("cudaEventSynchronize", 0)) / steps, 2),
            "span_us": round((max(g[0] + g[1] for g in gpu) - gpu[0][0]) / steps, 2) if gpu else 0,
            "runtime_calls": {k: round(v / steps, 2) for k, v in sorted(calls.items()) if v >= steps},
            "top": [{"name": short_kernel(n), "count": round(c / steps, 2), "us": round(d / steps, 2)}
                    for n, (c, d) in sorted(top.items(), key=lambda x: -x[1][1])[:12]]}


def short_kernel(name, length=90):
    """A kernel's name without namespaces that say nothing."""
    name = re.sub(r"^void ", "", name)
    name = name.replace("(anonymous namespace)::", "").replace("at::native::", "").replace("c10::", "").replace("at::cuda::", "")
    return name[:length]


def dims(grid):
    return "x".join(str(g) for g in grid) if grid else ""


def shape_text(args):
    """Input shapes of a framework operation: 8x1024x768;768;- (a dash for what is no tensor)."""
    def one(d):
        if isinstance(d, list) and d and all(isinstance(x, int) for x in d):
            return "x".join(map(str, d))
        if isinstance(d, list) and d and all(isinstance(x, list) for x in d):
            return "[" + " ".join(one(x) for x in d) + "]"
        return "-"
    return ";".join(one(d) for d in args.get("Input Dims", [])).rstrip(";-")


def operations(events, step_name="step:1"):
    """One step in order: a line per framework call and GPU operation.

    [(call, aten, launched by, input shapes, host us with profiler, kind, kernel, grid, block, us)]; a call that gives the GPU
    nothing has one line with an empty kind. `aten` is the outermost operation, `launched by` the innermost.
    """
    mark = next(e for e in events if e.get("cat") == "user_annotation" and e["name"] == step_name)
    first, last = mark["ts"], mark["ts"] + mark["dur"]
    device = {}
    for e in events:
        if e.get("cat") in GPU_CATEGORIES:
            device.setdefault(e["args"].get("correlation"), []).append(e)
    host = [e for e in events if e.get("cat") in ("cpu_op", "cuda_runtime", "cuda_driver") and first <= e["ts"] <= last]
    host.sort(key=lambda e: (e["ts"], -e.get("dur", 0)))
    lines, stack, call, outer = [], [], -1, None

    def put(name, innermost, e=None):
        lines.append([call, name, innermost, shape_text(outer["args"]) if outer else "", round(outer["dur"], 1) if outer else "",
                      GPU_CATEGORIES[e["cat"]] if e else "", short_kernel(e["name"]) if e else "",
                      dims(e["args"].get("grid")) if e else "", dims(e["args"].get("block")) if e else "", round(e["dur"], 3) if e else ""])
    had = True
    for e in host:
        while stack and stack[-1]["ts"] + stack[-1].get("dur", 0) <= e["ts"]:
            stack.pop()
        if e["cat"] == "cpu_op":
            if not stack:
                if not had:
                    put(outer["name"], "")
                outer, call, had = e, call + 1, False
            stack.append(e)
        else:
            for g in sorted(device.get(e["args"].get("correlation"), []), key=lambda g: g["ts"]):
                inside = bool(stack)
                put(outer["name"] if inside else "", stack[-1]["name"] if inside else "", g)
                had = had or inside
    if not had:
        put(outer["name"], "")
    return lines


OPERATION_COLUMNS = ["call", "aten", "launched_by", "shapes", "host_us_profiled", "kind", "kernel", "grid", "block", "us"]


def profile_cases(cases, repetitions=7, chunk=40):
    """Kernel durations. cases: [(name, setup)], setup() gives calls to rotate. Yields (name, result or error) as they come."""
    for i in range(0, len(cases), chunk):
        part, errors, count = cases[i:i + chunk], {}, {}
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
            for name, setup in part:
                try:
                    calls = setup()
                    count[name] = len(calls)
                    for f in calls[:2]:
                        f()
                    torch.cuda.synchronize()
                    for r in range(repetitions):
                        with record_function("case:" + name):
                            calls[r % len(calls)]()
                    torch.cuda.synchronize()
                except Exception as error:
                    errors[name] = repr(error)[:200]
                    torch.cuda.synchronize()
                calls = None
        runs = kernels_by_case(read_trace(prof))
        for name, _ in part:
            if name in errors or not any(runs.get(name, [])):
                yield name, {"error": errors.get(name, "no kernel")}
                continue
            totals = [sum(k[2] for k in run) for run in runs[name] if run]
            middle = statistics.median(totals)
            chosen = min((run for run in runs[name] if run), key=lambda run: abs(sum(k[2] for k in run) - middle))
            yield name, {"us": round(middle, 3), "us_min": round(min(totals), 3), "us_max": round(max(totals), 3), "kernels": len(chosen),
                         "sets": count[name],
                         "parts": [[k[1][:110], round(k[2], 3), dims(k[3]), dims(k[4])] for k in chosen]}
        torch.cuda.empty_cache()


def kernels_by_case(events):
    """{case: [[(ts, kernel, us, grid, block)] of each repetition]}"""
    marks, calls, device = [], [], {}
    for e in events:
        c = e.get("cat")
        if c == "user_annotation" and e["name"].startswith("case:"):
            marks.append(e)
        elif c in ("cuda_runtime", "cuda_driver"):
            calls.append(e)
        elif c in GPU_CATEGORIES:
            device.setdefault(e["args"].get("correlation"), []).append(e)
    marks.sort(key=lambda e: e["ts"])
    calls.sort(key=lambda e: e["ts"])
    out, j = {}, 0
    for m in marks:
        while j < len(calls) and calls[j]["ts"] < m["ts"]:
            j += 1
        k, found = j, []
        while k < len(calls) and calls[k]["ts"] <= m["ts"] + m["dur"]:
            found += [(e["ts"], e["name"], e["dur"], e["args"].get("grid"), e["args"].get("block"))
                      for e in device.get(calls[k]["args"].get("correlation"), [])]
            k += 1
        out.setdefault(m["name"][5:], []).append(sorted(found, key=lambda x: x[0]))
    return out
