# SPDX-License-Identifier: Apache-2.0
"""Host time of the phases of a training step, and what else in the process changes it.

usage: training_host.py OUT [--seconds N]

OUT/training_phases.jsonl: host microseconds of forward, backward, zero_grad and the optimizer's step of whole networks whose tensors are
so small that the device waits, each phase on an empty queue. OUT/training_stacks.jsonl: the same of stacks that repeat one operation, so
that differences over their length price it. OUT/training_process.jsonl: one training step after a profiler, a compiler, a large heap.
"""
import argparse
import gc
import json
import os
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch._dynamo
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
import networks as N
import timing
import training_networks

BF16 = torch.bfloat16
DEV = "cuda"


def phases(forward, parameters, optimizer, rounds=40, warm=8, budget_s=2.5):
    """Host microseconds of each phase: quantiles over rounds, each phase begun on an empty queue."""
    out = {"forward": [], "backward": [], "zero_grad": [], "optimizer": []}
    begin = time.perf_counter()
    for i in range(rounds + warm):
        if i > warm + 10 and time.perf_counter() - begin > budget_s:
            break
        torch.cuda.synchronize()
        a = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        b = time.perf_counter()
        torch.cuda.synchronize()
        c = time.perf_counter()
        loss = forward()
        d = time.perf_counter()
        torch.cuda.synchronize()
        e = time.perf_counter()
        loss.backward()
        f = time.perf_counter()
        torch.cuda.synchronize()
        g = time.perf_counter()
        optimizer.step()
        h = time.perf_counter()
        if i >= warm:
            for k, v in zip(("zero_grad", "forward", "backward", "optimizer"), (b - a, d - c, f - e, h - g)):
                out[k].append(v * 1e6)
    return {k: timing.summary(v, 1) for k, v in out.items()} | {"python_loop_us": timing.python_loop_us()}


def small_networks():
    """(name, network, parameters, batch, sequence, build, loss) with few values each."""
    L = training_networks.Loss
    yield "gpt2", lambda: (N.Gpt(12, 64, 4, 512, context=64), (N.tokens(1, 16, 512),), N.tokens(1, 16, 512)), \
        "gpt2", {"layers": 12, "d_model": 64, "heads": 4, "vocab": 512, "context": 64}, 1, 16
    yield "gpt2_unfused", lambda: (N.Gpt(12, 64, 4, 512, context=64, flash=False), (N.tokens(1, 16, 512),), N.tokens(1, 16, 512)), \
        "gpt2", {"layers": 12, "d_model": 64, "heads": 4, "vocab": 512, "context": 64, "attention": "unfused"}, 1, 16
    for library in (False, True):
        yield "llama_lib" if library else "llama", lambda: (N.Llama(12, 64, 4, 4, 128, 512, library=library, max_length=64), (N.tokens(1, 16, 512),), N.tokens(1, 16, 512)), \
            "llama_160m", {"layers": 12, "d_model": 64, "heads": 4, "kv_heads": 4, "d_ff": 128, "vocab": 512} | ({"norm": "library", "rope": "library"} if library else {}), 1, 16
    yield "encoder", lambda: (N.Encoder(12, 64, 4, 128, 512, 64), (N.tokens(1, 16, 512), torch.zeros(1, 16, dtype=torch.long)), None), \
        "encoder", {"layers": 12, "d_model": 64, "heads": 4, "d_ff": 128, "vocab": 512, "context": 64}, 1, 16
    yield "vit", lambda: (N.Vit(32, 8, 12, 64, 4, 16), (torch.randn(1, 3, 32, 32),), torch.randint(0, 16, (1,))), \
        "vit", {"image": 32, "patch": 8, "layers": 12, "d_model": 64, "heads": 4, "classes": 16}, 1, 1

    def resnet():
        import torchvision
        model, x = torchvision.models.resnet50(), torch.randn(2, 3, 64, 64)
        return model.to(memory_format=torch.channels_last), (x.contiguous(memory_format=torch.channels_last),), torch.randint(0, 1000, (2,))
    yield "resnet50", resnet, "resnet50", {"image": 64}, 2, 1


class Stack(nn.Module):
    """Blocks of LayerNorm, Linear, GELU, Linear and a residual, each followed by `count` times one operation."""

    def __init__(self, op, count, blocks=8, d=64):
        super().__init__()
        self.op, self.count = op, count
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(blocks))
        self.a = nn.ModuleList(nn.Linear(d, d) for _ in range(blocks))
        self.b = nn.ModuleList(nn.Linear(d, d) for _ in range(blocks))
        self.more = nn.ModuleList(nn.ModuleList(make(op, d) for _ in range(count)) for _ in range(blocks))

    def forward(self, x):
        for ln, a, b, more in zip(self.ln, self.a, self.b, self.more):
            x = x + b(F.gelu(a(ln(x))))
            for m in more:
                x = apply(self.op, m, x)
        return x.float().mean()


def make(op, d):
    return {"linear": lambda: nn.Linear(d, d), "linear_nobias": lambda: nn.Linear(d, d, bias=False), "layer_norm": lambda: nn.LayerNorm(d),
            "rms_norm": lambda: nn.RMSNorm(d), "parameter_mul": lambda: Scale(d), "conv": lambda: nn.Conv2d(d, d, 3, padding=1, bias=False),
            "batch_norm": lambda: nn.BatchNorm2d(d)}.get(op, nn.Identity)()


class Scale(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))


def apply(op, m, x):
    if op in ("linear", "linear_nobias", "layer_norm", "rms_norm"):
        return m(x)
    if op == "parameter_mul":
        return x * m.w
    if op == "mul":
        return x * x
    if op == "mul_scalar":
        return x * 0.5
    if op == "add":
        return x + x
    if op == "gelu":
        return F.gelu(x)
    if op == "silu":
        return F.silu(x)
    if op == "tanh":
        return torch.tanh(x)
    if op == "softmax":
        return x.softmax(-1)
    if op == "dropout":
        return F.dropout(x, 0.1)
    if op == "view":
        return x.view(x.shape[0], -1, 4, 16).view(x.shape)
    if op == "transpose":
        return x.transpose(1, 2).transpose(1, 2)
    if op == "contiguous":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if op == "split_cat":
        return torch.cat(x.split(32, 2), 2)
    if op == "slice":
        return x + x[..., :1]
    if op == "matmul":
        return x @ x.transpose(1, 2) @ x
    if op == "attention":
        q = x.view(x.shape[0], -1, 4, 16).transpose(1, 2)
        return F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(x.shape)
    if op == "cast":
        return x.to(BF16).to(x.dtype) if x.dtype == torch.float32 else x.float().to(BF16)
    if op == "masked_fill":
        return x.masked_fill(x > 3, 0.0)
    if op == "mean":
        return x - x.mean(-1, keepdim=True)
    if op in ("conv", "batch_norm"):
        return m(x.reshape(2, 64, 4, -1)).reshape(x.shape)
    raise KeyError(op)


OPS = ("linear", "linear_nobias", "layer_norm", "rms_norm", "parameter_mul", "mul", "mul_scalar", "add", "gelu", "silu", "tanh", "softmax", "dropout",
       "view", "transpose", "contiguous", "split_cat", "slice", "matmul", "attention", "cast", "masked_fill", "mean", "conv", "batch_norm")


def write(path, out):
    with open(path, "a") as file:
        file.write(json.dumps(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    begin = time.time()

    # What else in the process changes a step, first of all in a fresh one.
    torch.manual_seed(0)
    row = next(r for r in training_networks.ROWS if r.name == "gpt2_B2_T256")
    with torch.device("cuda"):
        inner, inputs, labels = row.build()
    model = training_networks.Loss(inner).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def forward():
        with torch.autocast("cuda", BF16):
            return model(inputs, labels)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward().backward()
        optimizer.step()

    def look(what):
        for _ in range(2):
            timing.wait_for_quiet(400)
            out = {"after": what, "step_ms": timing.step_times(step, per=3, budget_s=1.0, warm=4), "phases": phases(forward, None, optimizer, 20, 4, 1.0)}
            write(f"{args.out}/training_process.jsonl", out)
    look("start")
    gc.disable()
    look("no garbage collection")
    gc.enable()
    gc.freeze()
    look("heap frozen")
    gc.unfreeze()
    heap = [[i] for i in range(2_000_000)]
    look("a heap of two million lists")
    del heap
    gc.collect()
    look("heap gone")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        step()
        torch.cuda.synchronize()
    look("a profiler")
    compiled = torch.compile(lambda a: torch.sin(a) + 1)
    compiled(torch.randn(64, device=DEV))
    look("a compiled function")
    torch._dynamo.reset()
    look("dynamo reset")
    print(f"process: {time.time() - begin:.0f} s", flush=True)

    del model, optimizer, inner
    gc.collect()
    gc.freeze()
    for name, build, network, parameters, batch, sequence in small_networks():
        for precision in ("autocast", "pure"):
            if time.time() - begin > args.seconds:
                break
            try:
                torch.manual_seed(0)
                torch.set_default_dtype(BF16 if precision == "pure" else torch.float32)
                with torch.device("cuda"):
                    inner, inputs, labels = build()
                torch.set_default_dtype(torch.float32)
                model = training_networks.Loss(inner).train()

                def forward():
                    with torch.autocast("cuda", BF16, enabled=precision == "autocast"):
                        return model(inputs, labels)
                with torch.no_grad():
                    inference = []
                    for i in range(40):
                        torch.cuda.synchronize()
                        a = time.perf_counter()
                        forward()
                        if i > 8:
                            inference.append((time.perf_counter() - a) * 1e6)
                for loop in (("fused", "foreach", "for") if name == "gpt2" else ("fused",)):
                    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **{"fused": {"fused": True}, "foreach": {"foreach": True}, "for": {"foreach": False}}[loop])
                    timing.wait_for_quiet(400)
                    out = phases(forward, None, optimizer)
                    write(f"{args.out}/training_phases.jsonl", {"name": name, "network": network, "parameters": parameters, "batch": batch, "sequence": sequence,
                          "precision": precision, "loop": loop, "tensors": len(list(model.parameters())), "no_grad": timing.summary(inference, 1), **out})
            except Exception as error:
                torch.set_default_dtype(torch.float32)
                print("ERR", name, precision, repr(error)[:300], flush=True)
    print(f"networks: {time.time() - begin:.0f} s", flush=True)
    for repeat in range(2):
        for autocast in (False, True):
            for op in OPS:
                for count in (0, 1, 4) if op == "linear" else (1, 4):
                    if time.time() - begin > args.seconds:
                        continue
                    try:
                        model = Stack(op, count).cuda()
                        x = torch.randn(2, 16, 64, device=DEV, requires_grad=True)
                        optimizer = torch.optim.SGD([x], lr=0.0)

                        def forward():
                            for p in model.parameters():
                                p.grad = None
                            with torch.autocast("cuda", BF16, enabled=autocast):
                                return model(x)
                        write(f"{args.out}/training_stacks.jsonl", {"op": op, "count": count, "blocks": 8, "autocast": autocast, **phases(forward, None, optimizer, 25, 5, 0.6)})
                    except Exception as error:
                        print("ERR", op, count, repr(error)[:200], flush=True)
    print(f"training host took {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
