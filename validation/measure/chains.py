# SPDX-License-Identifier: Apache-2.0
"""Kernels that apply a function many times, as torch.compile writes them, and what torch.utils.checkpoint costs the host.

usage: chains.py OUT [--workers N]

OUT/alu_chains.jsonl: GPU microseconds of k functions in one kernel, over 2^26 values (cold), with its launch.
OUT/checkpoint_host.jsonl: host microseconds of forward and of backward of a stack of small blocks, checkpointed or not.
"""
import argparse
import fcntl
import json
import os
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
os.environ.setdefault("TORCHINDUCTOR_AUTOGRAD_CACHE", "0")
os.environ.setdefault("TORCH_WARM_POOL", "0")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.profiler import ProfilerActivity, profile, record_function
import compiled
import timing

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
FUNCTIONS = {"cos": torch.cos, "tanh": torch.tanh, "exp": lambda x: torch.exp(-x), "erf": torch.erf, "gelu": F.gelu, "mul": lambda x: x * 1.0001 + 0.5}
SIZES = (1 << 26, 1 << 22)


def chain_worker(index, args, jobs):
    lock = f"{args.out}/device.lock"
    compiled.tune_alone(lock)
    torch.set_grad_enabled(False)
    with compiled.device(lock):
        torch.zeros(1, device="cuda")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
    import torch._dynamo as dynamo
    for name, k, size in jobs[index::args.workers]:
        try:
            dynamo.reset()
            f = FUNCTIONS[name]

            def run(x):
                for _ in range(k):
                    x = f(x)
                return x
            compiled_run = torch.compile(run)
            with compiled.device(lock):
                inputs = [torch.randn(size, device="cuda") for _ in range(2 if size > 1 << 24 else 24)]
            compiled_run(inputs[0])
            torch.cuda.synchronize()
            with compiled.device(lock):
                for x in inputs:
                    compiled_run(x)
                torch.cuda.synchronize()
                with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
                    for i in range(11):
                        with record_function("case:x"):
                            compiled_run(inputs[i % len(inputs)])
                    torch.cuda.synchronize()
                runs = timing.kernels_by_case(timing.read_trace(prof))["x"]
            out = {"function": name, "length": k, "values": size, "us": round(statistics.median(r[-1][2] for r in runs), 3), "kernels": len(runs[0]),
                   "kernel": runs[0][-1][1], "grid": timing.dims(runs[0][-1][3]), "block": timing.dims(runs[0][-1][4])}
            del inputs
            torch.cuda.empty_cache()
        except Exception as error:
            out = {"function": name, "length": k, "error": repr(error)[:300]}
        with open(f"{args.out}/alu_chains.jsonl", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(out) + "\n")


class Block(nn.Module):
    """`ops` calls that each keep one tensor for backward (sin), or none (neg), or linear layers (they keep two)."""

    def __init__(self, kind, ops):
        super().__init__()
        self.kind = kind
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(ops)) if kind == "linear" else None
        self.ops = ops

    def forward(self, x):
        if self.kind == "linear":
            for layer in self.layers:
                x = layer(x)
        elif self.kind == "sin":
            for _ in range(self.ops):
                x = torch.sin(x)
        else:
            for _ in range(self.ops):
                x = torch.neg(x)
        return x


def checkpoint_host(out_path):
    with open(out_path, "w") as file:
        for autocast in (False, True):
            for kind in ("sin", "neg", "linear"):
                for ops in (1, 4, 16):
                    if autocast and kind != "linear":
                        continue
                    blocks = nn.ModuleList(Block(kind, ops) for _ in range(12)).cuda()
                    x = torch.randn(64, 64, device="cuda", requires_grad=True)
                    for how in ("plain", "checkpoint", "no_rng", "reentrant"):
                        def forward():
                            y = x
                            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                                for b in blocks:
                                    if how == "plain":
                                        y = b(y)
                                    else:
                                        y = torch.utils.checkpoint.checkpoint(b, y, use_reentrant=how == "reentrant", preserve_rng_state=how != "no_rng")
                            return y.sum()
                        f_us, b_us = [], []
                        for i in range(40):
                            for p in blocks.parameters():
                                p.grad = None
                            x.grad = None
                            torch.cuda.synchronize()
                            a = time.perf_counter()
                            loss = forward()
                            b = time.perf_counter()
                            torch.cuda.synchronize()
                            c = time.perf_counter()
                            loss.backward()
                            d = time.perf_counter()
                            if i >= 8:
                                f_us.append((b - a) * 1e6)
                                b_us.append((d - c) * 1e6)
                        file.write(json.dumps({"kind": kind, "ops": ops, "blocks": 12, "autocast": autocast, "how": how, "forward_us": timing.summary(f_us, 1),
                                               "backward_us": timing.summary(b_us, 1), "python_loop_us": timing.python_loop_us()}) + "\n")
                        file.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--workers", type=int, default=10)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    begin = time.time()
    import torch._inductor.compile_fx
    import torch._inductor.codegen.triton
    pid = os.fork()
    if pid == 0:
        try:
            checkpoint_host(f"{args.out}/checkpoint_host.jsonl")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    print(f"checkpoint: {time.time() - begin:.0f} s", flush=True)
    jobs = [(name, k, size) for k in reversed(LENGTHS) for name in FUNCTIONS for size in SIZES if size == SIZES[0] or k in (1, 8, 32)]
    children = []
    for index in range(args.workers):
        pid = os.fork()
        if pid == 0:
            try:
                chain_worker(index, args, jobs)
            except BaseException:
                import traceback
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    print(f"chains took {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
