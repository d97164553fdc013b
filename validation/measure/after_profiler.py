# SPDX-License-Identifier: Apache-2.0
"""What a profiler that ran once in the process leaves behind: the same things before and after.

usage: after_profiler.py OUT

OUT/after_profiler.jsonl: host microseconds of single calls in a hot loop, and step times of networks, each measured before a profiler ever
ran in the process and after one has. CUPTI stays attached to the driver, so calls into it cost more from then on.
"""
import argparse
import ctypes
import gc
import json
import os
import statistics
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch._dynamo
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
import networks as N
import timing
import training_networks

BF16 = torch.bfloat16


def calls():
    x = torch.zeros(64, device="cuda")
    o = torch.zeros(64, device="cuda")
    a, w = torch.randn(16, 64, device="cuda", dtype=BF16), torch.randn(64, 64, device="cuda", dtype=BF16)
    runtime = ctypes.CDLL(None)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    event = torch.cuda.Event()
    big = torch.empty(1 << 16, device="cuda", dtype=torch.uint8)
    other = torch.empty_like(big)
    library = None
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            pass
    out = {"view": lambda: x.view(8, 8), "empty": lambda: torch.empty(64, device="cuda"), "add_out": lambda: torch.add(x, o, out=o),
           "add": lambda: torch.add(x, o), "linear": lambda: F.linear(a, w), "copy": lambda: other.copy_(big), "event_record": lambda: event.record(),
           "two_adds": lambda: (torch.add(x, o, out=o), torch.add(x, o, out=o))}
    if library is not None:
        address = ctypes.c_void_p(big.data_ptr())
        out["memset"] = lambda: library.cudaMemsetAsync(address, 0, ctypes.c_size_t(1024), stream)
        out["stream_query"] = lambda: library.cudaStreamQuery(stream)
        device = ctypes.c_int()
        out["get_device"] = lambda: library.cudaGetDevice(ctypes.byref(device))
    graphs = {}
    for nodes in (1, 2, 8, 32, 128, 300, 1024, 2048):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.add(x, o, out=o)
        torch.cuda.current_stream().wait_stream(side)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for _ in range(nodes):
                torch.add(x, o, out=o)
        graphs[nodes] = g
    return out, graphs


def measure(when, things, graphs, steps, path):
    with open(path, "a") as file:
        def put(**kw):
            file.write(json.dumps({"when": when, **kw}) + "\n")
            file.flush()
        for repeat in range(2):
            timing.wait_for_quiet(400)
            loop = timing.python_loop_us()
            for name, f in things.items():
                put(call=name, host_us=round(timing.hot_loop_us(f, calls=200, rounds=7), 3), python_loop_us=loop)
            for nodes, g in graphs.items():
                host, wall = [], []
                for _ in range(15):
                    torch.cuda.synchronize()
                    a = time.perf_counter()
                    g.replay()
                    b = time.perf_counter()
                    torch.cuda.synchronize()
                    c = time.perf_counter()
                    host.append((b - a) * 1e6)
                    wall.append((c - a) * 1e6)
                count = 20
                torch.cuda.synchronize()
                a = time.perf_counter()
                for _ in range(count):
                    g.replay()
                torch.cuda.synchronize()
                put(call=f"replay/{nodes}", host_us=round(statistics.median(host), 2), wall_us=round(statistics.median(wall), 2),
                    period_us=round((time.perf_counter() - a) / count * 1e6, 2), python_loop_us=loop)
            idle = []
            for _ in range(200):
                a = time.perf_counter()
                torch.cuda.synchronize()
                idle.append((time.perf_counter() - a) * 1e6)
            put(call="synchronize_idle", host_us=round(statistics.median(idle), 2), python_loop_us=loop)
        for name, step in steps.items():
            timing.wait_for_quiet(400)
            put(step=name, step_ms=timing.step_times(step, per=3, budget_s=0.7, warm=4), host_us=timing.host_times(step, 0.4), python_loop_us=timing.python_loop_us())


def networks():
    out = {}
    torch.manual_seed(0)
    torch.set_default_dtype(BF16)
    with torch.device("cuda"):
        llama, ids = N.Llama(16, 768, 12, 12, 2048, 32000), N.tokens(1, 128, 32000)
    torch.set_default_dtype(torch.float32)
    llama = llama.eval()

    def inference(f, graphs=False):
        def step():
            with torch.no_grad():
                if graphs:
                    torch.compiler.cudagraph_mark_step_begin()
                f(ids)
        return step
    out["llama/eager"] = inference(llama)
    out["llama/default"] = inference(torch.compile(llama))
    with torch.no_grad():
        llama(ids)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            llama(ids)
    out["llama/cudagraph"] = graph.replay
    row = next(r for r in training_networks.ROWS if r.name == "gpt2_B2_T256")
    for mode in ("eager", "default", "reduce-overhead"):
        with torch.device("cuda"):
            inner, inputs, labels = row.build()
        model = training_networks.Loss(inner).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        f = model if mode == "eager" else torch.compile(model) if mode == "default" else torch.compile(model, mode=mode)

        def step(f=f, optimizer=optimizer, inputs=inputs, labels=labels, graphs=mode == "reduce-overhead"):
            optimizer.zero_grad(set_to_none=True)
            if graphs:
                torch.compiler.cudagraph_mark_step_begin()
            with torch.autocast("cuda", BF16):
                loss = f(inputs, labels)
            loss.backward()
            optimizer.step()
        out[f"gpt2_train/{mode}"] = step
    for step in out.values():
        for _ in range(4):
            step()
    torch.cuda.synchronize()
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    path, begin = f"{args.out}/after_profiler.jsonl", time.time()
    steps = networks()
    things, graphs = calls()
    gc.collect()
    print(f"ready: {time.time() - begin:.0f} s", flush=True)
    measure("before", things, graphs, steps, path)
    measure("before", things, graphs, steps, path)
    print(f"before: {time.time() - begin:.0f} s", flush=True)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        steps["llama/eager"]()
        torch.cuda.synchronize()
    measure("after", things, graphs, steps, path)
    measure("after", things, graphs, steps, path)
    print(f"after: {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
