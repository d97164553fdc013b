# SPDX-License-Identifier: Apache-2.0
"""Sequences of input shapes through torch.compile: which calls compile again, and how long each takes.

usage: compiled_shapes.py OUT [--only REGEX] [--seconds N]

Writes OUT/compiled_shapes.jsonl, a line per sequence: per call its shape, milliseconds, and how many graphs were compiled.
"""
import argparse
import json
import os
import re
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
os.environ.setdefault("TORCHINDUCTOR_AUTOGRAD_CACHE", "0")
import torch
import torch.nn as nn
import torch.nn.functional as F
import networks as N
import timing


class Mlp(nn.Module):
    def __init__(self, d=256):
        super().__init__()
        self.a, self.b = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(x)))


class Two(nn.Module):
    """Two inputs whose first dimensions are independent."""

    def forward(self, x, y):
        return F.relu(x) + 1, F.relu(y) * 2


def mlp(*shape):
    return (torch.randn(*shape, 256, device="cuda", dtype=torch.bfloat16),)


def gpt(b, t):
    return (N.tokens(b, t, 512),)


def pair(a, b):
    return torch.randn(a, 64, device="cuda"), torch.randn(b, 64, device="cuda")


def flag(n, k):
    return torch.randn(n, 64, device="cuda"), k


class Scalar(nn.Module):
    def forward(self, x, k):
        return F.relu(x) * k


def mark(dimensions, **kw):
    def function(inputs):
        for d in dimensions:
            torch._dynamo.mark_dynamic(inputs[0], d, **kw)
    return function


def small_gpt():
    with torch.device("cuda"):
        return N.Gpt(1, 128, 2, 512, 256).to(torch.bfloat16)


def small_mlp():
    return Mlp().to("cuda", torch.bfloat16)


def small_llama():
    with torch.device("cuda"):
        return N.Llama(1, 128, 2, 2, 256, 512, max_length=256).to(torch.bfloat16)


# name: (module, inputs of a shape, shapes, options)
SEQUENCES = {
    "mlp/batch": (small_mlp, mlp, [(64,), (64,), (128,), (96,), (200,), (64,), (1,), (1,), (2,), (0,), (64,)], {}),
    "mlp/one_first": (small_mlp, mlp, [(1,), (64,), (1,), (128,), (2,), (96,)], {}),
    "mlp/two_dims_one_then_other": (small_mlp, mlp, [(4, 64), (8, 64), (16, 64), (4, 128), (4, 96), (8, 200), (1, 64), (4, 1), (1, 1), (3, 7)], {}),
    "mlp/two_dims_together": (small_mlp, mlp, [(4, 64), (8, 128), (2, 32), (1, 128), (16, 1), (3, 5), (4, 4), (64, 64)], {}),
    "mlp/dynamic_true": (small_mlp, mlp, [(64,), (128,), (1,), (2,), (96,), (1,)], {"dynamic": True}),
    "mlp/mark_dynamic": (small_mlp, mlp, [(64,), (128,), (96,), (1,), (2,), (64,)], {"prepare": mark((0,))}),
    "mlp/mark_dynamic_min_max": (small_mlp, mlp, [(64,), (128,), (512,), (96,)], {"prepare": mark((0,), min=2, max=1024)}),
    "mlp/dynamic_false": (small_mlp, mlp, [(32 * (i + 1),) for i in range(10)] + [(32,), (640,), (640,)], {"dynamic": False}),
    "mlp/many_batches": (small_mlp, mlp, [(32 * (i + 1),) for i in range(10)], {}),
    "mlp/reduce_overhead": (small_mlp, mlp, [(64,)] * 3 + [(128,)] * 4 + [(96,)] * 4 + [(64,)] * 3 + [(128,)] * 2, {"mode": "reduce-overhead"}),
    "mlp/reduce_overhead_dynamic_false": (small_mlp, mlp, [(64,)] * 3 + [(128,)] * 3 + [(64,)] * 2, {"mode": "reduce-overhead", "dynamic": False}),
    "gpt/sequence": (small_gpt, gpt, [(4, 64), (4, 128), (4, 96), (4, 7), (4, 1), (4, 2), (8, 64), (8, 100), (1, 64)], {}),
    "gpt/batch": (small_gpt, gpt, [(4, 64), (8, 64), (2, 64), (1, 64), (16, 64), (4, 128), (3, 100)], {}),
    "llama/sequence": (small_llama, gpt, [(4, 64), (4, 128), (4, 96), (4, 1), (2, 96)], {}),
    "llama/mark_dynamic_both": (small_llama, gpt, [(4, 64), (8, 128), (2, 96), (1, 96)], {"prepare": mark((0, 1))}),
    "two_inputs/one_changes": (Two, pair, [(32, 32), (64, 32), (96, 32), (96, 48), (32, 80), (48, 48)], {}),
    "two_inputs/together": (Two, pair, [(32, 32), (64, 64), (96, 96), (96, 48)], {}),
    "scalar/int": (Scalar, flag, [(32, 2), (32, 3), (32, 4), (32, 1), (32, 0), (64, 5)], {}),
    "scalar/float": (Scalar, flag, [(32, 2.0), (32, 3.0), (32, 4.5), (32, 0.0), (32, 1.0)], {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    begin = time.time()
    import torch._dynamo as dynamo
    counters = dynamo.utils.counters
    with open(f"{args.out}/compiled_shapes.jsonl", "a") as out, torch.no_grad():
        out.write(json.dumps({"machine": timing.machine()}) + "\n")
        for name, (make, inputs, shapes, options) in SEQUENCES.items():
            if not re.search(args.only, name) or time.time() - begin > args.seconds:
                continue
            dynamo.reset()
            counters.clear()
            options = dict(options)
            prepare = options.pop("prepare", None)
            function, calls = torch.compile(make().eval(), **options), []
            for shape in shapes:
                x = inputs(*shape)
                if prepare:
                    prepare(x)
                torch.cuda.synchronize()
                before = counters["stats"].get("unique_graphs", 0)
                if options.get("mode") == "reduce-overhead":
                    torch.compiler.cudagraph_mark_step_begin()
                start = time.perf_counter()
                try:
                    function(*x)
                    torch.cuda.synchronize()
                    error = ""
                except Exception as caught:
                    error = repr(caught)[:200]
                calls.append({"shape": list(shape), "ms": round((time.perf_counter() - start) * 1e3, 2),
                              "compiled": counters["stats"].get("unique_graphs", 0) - before} | ({"error": error} if error else {}))
            out.write(json.dumps({"sequence": name, "calls": calls, "limit": dynamo.config.recompile_limit,
                                  "options": {k: v for k, v in options.items()}, "marked": prepare is not None}) + "\n")
            out.flush()
            print(f"{time.time() - begin:5.0f} s {name:34s}", " ".join(f"{'x'.join(map(str, c['shape']))}:{c['compiled']}" for c in calls), flush=True)


if __name__ == "__main__":
    main()
