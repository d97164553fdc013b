# SPDX-License-Identifier: Apache-2.0
"""Seconds of the first call through torch.compile, with its caches on disk empty and full.

usage: compile_time.py OUT [--only REGEX] [--seconds N]

Writes OUT/compile_time.csv, a line per case. Each case has a cache folder of its own; the process has compiled before, but for the
first row. `ops`: calls that Dynamo captured. `kernels`: generated Triton kernels, distinct; `launches` and `library_calls`: calls in
the generated source.
"""
import argparse
import csv
import os
import re
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch._dynamo as dynamo
import torch._inductor.graph as inductor_graph
from torch._inductor.utils import fresh_cache
import networks as N

COLUMNS = ["case", "mode", "step", "ops", "graphs", "kernels", "launches", "library_calls", "cold_s", "warm_s"]
sources = []
inductor_graph.GraphLowering.save_output_code = staticmethod(sources.append)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(x)))


class Chain(nn.Module):
    def __init__(self, length, function):
        super().__init__()
        self.length, self.function = length, function

    def forward(self, x):
        for _ in range(self.length):
            x = self.function(x)
        return x


class Loss(nn.Module):
    """Loss of a language model on labels."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, labels):
        logits = self.model(ids)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def llama(layers):
    return lambda: N.Llama(layers, 768, 12, 12, 2048, 32000).to(N.BF16)


def gpt(layers, dtype):
    return lambda: Loss(N.Gpt(layers)).to(dtype)


def ids():
    return (N.tokens(1, 128, 32000),)


def labelled():
    return N.tokens(2, 256, 50304), N.tokens(2, 256, 50304)


def vector():
    return (torch.randn(1 << 20, device=N.DEV),)


def rows():
    return (torch.randn(64, 1024, device=N.DEV),)


def hidden():
    return (torch.randn(1, 16, 2048, device=N.DEV, dtype=N.BF16),)


CASES = [("first_in_process_mlp", Mlp, rows, {}), ("mlp", Mlp, rows, {})]
CASES += [(f"cos_chain_{k}", lambda k=k: Chain(k, torch.cos), vector, {}) for k in (1, 4, 16, 64)]
CASES += [(f"add_chain_{k}", lambda k=k: Chain(k, lambda x: x * 1.01 + 1), vector, {}) for k in (16, 64)]
CASES += [(f"llama_160m_L{n}", llama(n), ids, {}) for n in (1, 2, 4, 8, 16)]
CASES += [("llama_160m_L16", llama(16), ids, {"mode": "regional"})]
CASES += [("seed_decoder", lambda: N.SeedDecoder().to(N.BF16), hidden, {})]
CASES += [(f"gpt2_L{n}", gpt(n, N.BF16), labelled, {}) for n in (1, 4, 12)]
CASES += [(f"gpt2_train_L{n}", gpt(n, torch.float32), labelled, {"step": "training"}) for n in (1, 4, 12)]
CASES += [("gpt2_train_L12", gpt(12, torch.float32), labelled, {"step": "training", "mode": "regional"})]
CASES += [("mlp", Mlp, rows, {"mode": "max-autotune"})]
CASES += [("seed_decoder", lambda: N.SeedDecoder().to(N.BF16), hidden, {"mode": "max-autotune"})]


def first_call(build, inputs, mode, training):
    """Seconds of the first call, and of a second one as a check that it compiles nothing."""
    dynamo.reset()
    dynamo.utils.counters.clear()
    sources.clear()
    torch.manual_seed(0)
    with torch.device(N.DEV):
        model = build().train(training)
    args = inputs()
    with torch.no_grad():
        model(*args)  # what eager sets up (cuBLAS, cuDNN) is not the compiler's
    if mode == "regional":
        blocks = (model.model if isinstance(model, Loss) else model).blocks
        for i in range(len(blocks)):
            blocks[i] = torch.compile(blocks[i])
        function = model
    else:
        function = torch.compile(model, mode=None if mode == "default" else mode)

    def step():
        if training:
            with torch.autocast("cuda", N.BF16):
                loss = function(*args)
            loss.backward()
        else:
            with torch.no_grad():
                function(*args)

    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return round(time.perf_counter() - start, 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    dynamo.config.recompile_limit = 64
    begin = time.time()
    with open(f"{args.out}/compile_time.csv", "w", newline="") as out:
        table = csv.DictWriter(out, COLUMNS)
        table.writeheader()
        for case, build, inputs, options in CASES:
            mode, step = options.get("mode", "default"), options.get("step", "inference")
            if not re.search(args.only, f"{case}/{mode}") or time.time() - begin > args.seconds:
                continue
            with fresh_cache():
                row = {"case": case, "mode": mode, "step": step, "cold_s": first_call(build, inputs, mode, step == "training")}
                stats = dynamo.utils.counters["stats"]
                source = "\n".join(sources)
                row |= {"ops": stats.get("calls_captured", 0), "graphs": stats.get("unique_graphs", 0),
                        "kernels": len(re.findall(r"^triton_\w+ = async_compile\.triton\(", source, re.M)),
                        "launches": len(re.findall(r"^\s+triton_\w+\.run\(", source, re.M)),
                        "library_calls": len(re.findall(r"extern_kernels\.\w+\(|torch\.ops\.aten\.\w+\.\w+\(", source))}
                row["warm_s"] = first_call(build, inputs, mode, step == "training")
            table.writerow(row)
            out.flush()
            print(f"{time.time() - begin:5.0f} s", row, flush=True)


if __name__ == "__main__":
    main()
