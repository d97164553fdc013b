# SPDX-License-Identifier: Apache-2.0
"""Host microseconds of a call of compiled code, over stacks that vary one thing at a time on tiny tensors.

usage: compiled_host.py OUT [--only REGEX] [--seconds N] [--rounds N] [--workers N]

Each stack is a module whose forward is generated, so that each has a code object and a file name, and so compiled code and a history of shapes, of its own.
All are compiled first, by several processes; then every round calls each of them, one process at a time, so that slow spells of
the machine meet them all. Of each:
loop_us (a loop of calls), burst_us (8 calls from an empty queue) and idle_us (one call from an empty queue), none with a
synchronisation inside. Results and the generated sources go to OUT/compiled_host.jsonl; compiled_tables.py counts what the
sources do, and fits the costs.
"""
import argparse
import gc
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
from compiled import Workers, generated, tune_alone

DEV, BF16 = "cuda", torch.bfloat16
STACKS = []


def rand(*shape):
    return torch.randn(*shape, device=DEV, dtype=BF16) * 0.1


class Unit(nn.Module):
    """A module that is not torch's own: Dynamo compiles its forward where it gives up the loop around it."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return F.relu(self.w(x))


class Stack:
    def __init__(self, name, lines, inputs=1, parameters=0, modules=(), mode="default", context="no_grad", outputs="x", shape=(32, 64), items=0,
                 breaks=0, dynamic=None, mark=True, parameter_shape=None, extra=None, loop=False):
        self.name, self.family, self.lines, self.inputs, self.parameters, self.modules = name, name.split("/")[0], lines, inputs, parameters, modules
        self.mode, self.context, self.outputs, self.shape, self.items, self.breaks = mode, context, outputs, shape, items, breaks
        self.dynamic, self.mark, self.parameter_shape, self.extra, self.loop = dynamic, mark, parameter_shape, extra or {}, loop

    def make(self):
        names = ["x"] + [f"x{i}" for i in range(1, self.inputs)]
        source = f"def forward(self, {', '.join(names)}):\n" + "".join(f"    {line}\n" for line in self.lines) + f"    return {self.outputs}\n"
        scope = {"torch": torch, "F": F, "graph_break": torch._dynamo.graph_break}
        exec(compile(source, f"<{self.name}>", "exec"), scope)
        module = type("Stack", (nn.Module,), {"forward": scope["forward"]})()
        shape = self.parameter_shape or (self.shape[-1], self.shape[-1])
        for i in range(self.parameters):
            module.register_parameter(f"p{i}", nn.Parameter(rand(*shape)))
        for name, shape in self.extra.items():
            module.register_parameter(name, nn.Parameter(rand(*shape)))
        if self.modules:
            module.m = nn.ModuleList(make().to(DEV, BF16) for make in self.modules)
        self.module = module.eval()
        self.tensors = [rand(*self.shape) for _ in names]
        if len(self.shape) == 4 and self.family.startswith("conv"):
            self.module = self.module.to(memory_format=torch.channels_last)
            self.tensors = [t.contiguous(memory_format=torch.channels_last) for t in self.tensors]
        keywords = {} if self.dynamic is None else {"dynamic": self.dynamic}
        function = torch.compile(self.module, **keywords) if self.mode == "default" else torch.compile(self.module, mode=self.mode, **keywords)
        graphs, tensors = self.mode == "reduce-overhead" and self.mark, self.tensors

        def call():
            if graphs:
                torch.compiler.cudagraph_mark_step_begin()
            return function(*tensors)
        return call

    def under(self):
        return {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode, "grad": torch.enable_grad}[self.context]()


def add(*args, **kw):
    STACKS.append(Stack(*args, **kw))


def define():
    D = 64
    # Triton kernels and nothing else: softmax over one dimension, then over the other
    for n in (1, 2, 4, 8, 16, 32, 64):
        add(f"triton/{n}", [f"x = x.softmax({i % 2})" for i in range(n)])
    # products, one weight
    for n in (1, 2, 4, 8, 16, 32, 64):
        add(f"mm/{n}", ["x = x @ self.p0"] * n, parameters=1)
    for n in (1, 4, 16, 32):
        add(f"addmm/{n}", ["x = F.linear(x, self.p0, self.b)"] * n, parameters=1, extra={"b": (D,)})
    # products, a weight each: parameters, without and with modules
    for n in (4, 16, 64):
        add(f"mm_weights/{n}", [f"x = x @ self.p{i}" for i in range(n)], parameters=n)
        add(f"module_linear/{n}", [f"x = self.m[{i}](x)" for i in range(n)], modules=[lambda: nn.Linear(D, D, bias=False)] * n)
        add(f"module_linear_bias/{n}", [f"x = self.m[{i}](x)" for i in range(n)], modules=[lambda: nn.Linear(D, D)] * n)
    add("module_loop/16", ["for m in self.m:", "    x = m(x)"], modules=[lambda: nn.Linear(D, D, bias=False)] * 16)
    add("module_nested/16", ["for m in self.m:", "    x = m(x)"], modules=[lambda: nn.Sequential(nn.Sequential(nn.Linear(D, D, bias=False)))] * 16)
    for n in (1, 2, 4, 8, 16, 32):
        add(f"mm_relu/{n}", ["x = F.relu(x @ self.p0)"] * n, parameters=1)
    # arguments: one kernel of many parameters, inputs, outputs
    for n in (1, 8, 32):
        add(f"arguments/{n}", [f"x = x + self.p{i}" for i in range(n)], parameters=n, parameter_shape=(32, D))
    for n in (2, 4, 8, 16):
        add(f"inputs/{n}", ["x = x + " + " + ".join(f"x{i}" for i in range(1, n))], inputs=n)
    for n in (1, 4, 16):
        add(f"outputs/{n}", [f"y{i} = x * {i + 2}" for i in range(n)], outputs=", ".join(f"y{i}" for i in range(n)) + ",")
    # what Inductor leaves to the framework
    for n in (1, 2, 4, 8, 16):
        add(f"sdpa/{n}", ["x = F.scaled_dot_product_attention(x, x, x)"] * n, shape=(1, 4, 64, 64))
    add("sdpa_causal/8", ["x = F.scaled_dot_product_attention(x, x, x, is_causal=True)"] * 8, shape=(1, 4, 64, 64))
    for n in (1, 4, 16):
        add(f"bmm/{n}", ["x = torch.bmm(x, self.p0)"] * n, shape=(4, 32, D), parameters=1, parameter_shape=(4, D, D))
        add(f"conv/{n}", ["x = F.conv2d(x, self.p0, padding=1)"] * n, shape=(2, 16, 8, 8), parameters=1, parameter_shape=(16, 16, 3, 3))
        add(f"conv_bias_relu/{n}", ["x = F.relu(F.conv2d(x, self.p0, self.b, padding=1))"] * n, shape=(2, 16, 8, 8), parameters=1,
            parameter_shape=(16, 16, 3, 3), extra={"b": (16,)})
        add(f"topk/{n}", ["x = torch.topk(x, 64)[0]"] * n)
    for n in (1, 4):
        add(f"grouped_mm/{n}", ["ends = torch.arange(1, 5, device=x.device, dtype=torch.int32) * 8"] +
            ["x = torch._grouped_mm(x, self.p0.transpose(-2, -1), offs=ends)"] * n, parameters=1, parameter_shape=(4, D, D))
    add("embedding/8", ["i = torch.arange(32, device=x.device)"] + ["x = F.embedding(i, self.p0) + x.softmax(0)"] * 8, parameters=1)
    # regions
    for n in (1, 2, 4, 8, 16):
        add(f"breaks/{n}", ["x = F.relu(x + 1)"] + ["graph_break()", "x = F.relu(x + 1)"] * n, breaks=n)
    for n in (1, 3, 7, 15):
        lines = []
        for i in range(16):
            lines += [f"x = self.m[{i}](x)"] + (["graph_break()"] if (i + 1) % (16 // (n + 1)) == 0 and i < 15 else [])
        add(f"breaks_in_16_linears/{n}", lines, modules=[lambda: nn.Linear(D, D, bias=False)] * 16, breaks=n)
    for n in (1, 4, 16):
        add(f"loop_breaks/{n}", ["for m in self.m:", "    x = m(x)", "    graph_break()"], modules=[Unit] * n, breaks=n, loop=True)
    add("breaks_many_locals/4", [f"y{i} = x * {i + 2}" for i in range(8)] + ["graph_break()", "x = F.relu(x + 1)"] * 4, breaks=4,
        outputs="x, " + ", ".join(f"y{i}" for i in range(8)))
    for n in (1, 2, 4, 8):
        add(f"items/{n}", ["x = F.relu(x + 1)"] + ["if x.flatten()[0].item() > 1e30:", "    x = x * 2", "x = F.relu(x + 1)"] * n, items=n, breaks=n)
    # contexts
    for context in ("inference_mode", "grad"):
        add(f"{context}/mm_relu_8", ["x = F.relu(x @ self.p0)"] * 8, parameters=1, context=context)
        add(f"{context}/module_linear_16", [f"x = self.m[{i}](x)" for i in range(16)], modules=[lambda: nn.Linear(D, D, bias=False)] * 16, context=context)
    add("dynamic/mm_relu_8", ["x = F.relu(x @ self.p0)"] * 8, parameters=1, dynamic=True)
    add("dynamic/module_linear_16", [f"x = self.m[{i}](x)" for i in range(16)], modules=[lambda: nn.Linear(D, D, bias=False)] * 16, dynamic=True)
    # blocks of networks: a check of the fit
    for n in (1, 2, 4):
        add(f"gpt_blocks/{n}", ["for m in self.m:", "    x = m(x)"], modules=[lambda: N.GptBlock(D, 4)] * n, shape=(1, 16, D))
        add(f"llama_blocks/{n}", ["for m in self.m:", "    x = m(x, self.cos, self.sin)"], modules=[lambda: N.LlamaBlock(D, 4, 2, 2 * D)] * n,
            shape=(1, 16, D), extra={"cos": (16, 1, 8), "sin": (16, 1, 8)})
    # CUDA graphs of reduce-overhead
    ro = {"mode": "reduce-overhead"}
    for n in (1, 4, 16, 32):
        add(f"ro_mm_relu/{n}", ["x = F.relu(x @ self.p0)"] * n, parameters=1, **ro)
    for n in (4, 16, 64):
        add(f"ro_module_linear/{n}", [f"x = self.m[{i}](x)" for i in range(n)], modules=[lambda: nn.Linear(D, D, bias=False)] * n, **ro)
    add("ro_mm_weights/16", [f"x = x @ self.p{i}" for i in range(16)], parameters=16, **ro)
    for n in (2, 4, 8, 16):
        add(f"ro_inputs/{n}", ["x = x + " + " + ".join(f"x{i}" for i in range(1, n))], inputs=n, **ro)
    for n in (1, 4, 16):
        add(f"ro_outputs/{n}", [f"y{i} = x * {i + 2}" for i in range(n)], outputs=", ".join(f"y{i}" for i in range(n)) + ",", **ro)
    for n in (0, 1, 2, 4, 8, 16):
        add(f"ro_breaks/{n}", ["x = F.relu(x + 1)"] + ["graph_break()", "x = F.relu(x + 1)"] * n, breaks=n, **ro)
    for n in (1, 3, 7, 15):
        lines = []
        for i in range(16):
            lines += [f"x = self.m[{i}](x)"] + (["graph_break()"] if (i + 1) % (16 // (n + 1)) == 0 and i < 15 else [])
        add(f"ro_breaks_in_16_linears/{n}", lines, modules=[lambda: nn.Linear(D, D, bias=False)] * 16, breaks=n, **ro)
    for n in (1, 4):
        add(f"ro_items/{n}", ["x = F.relu(x + 1)"] + ["if x.flatten()[0].item() > 1e30:", "    x = x * 2", "x = F.relu(x + 1)"] * n, items=n, breaks=n, **ro)
    add("ro_loop_breaks/4", ["for m in self.m:", "    x = m(x)", "    graph_break()"], modules=[Unit] * 4, breaks=4, loop=True, **ro)
    for kib in (64, 1024, 16384):
        add(f"ro_input_KiB/{kib}", ["x = x.sum(0)"], shape=(kib * 512 // 256, 256), **ro)
    add("ro_unmarked/mm_relu_4", ["x = F.relu(x @ self.p0)"] * 4, parameters=1, mark=False, **ro)
    add("ro_inference_mode/mm_relu_4", ["x = F.relu(x @ self.p0)"] * 4, parameters=1, context="inference_mode", **ro)
    for n in (1, 4):
        add(f"ro_gpt_blocks/{n}", ["for m in self.m:", "    x = m(x)"], modules=[lambda: N.GptBlock(D, 4)] * n, shape=(1, 16, D), **ro)


def compile_stack(stack):
    import torch._dynamo as dynamo
    start = time.time()
    before = dynamo.utils.counters["stats"].get("unique_graphs", 0)
    with torch.no_grad():
        call = stack.make()
    with stack.under(), generated() as sources:
        for _ in range(4):
            call()
        torch.cuda.synchronize()
    stack.call, stack.samples = call, []
    stack.info = {"stack": stack.name, "family": stack.family, "mode": stack.mode, "context": stack.context, "sources": sources,
                  "graphs": dynamo.utils.counters["stats"].get("unique_graphs", 0) - before, "inputs": stack.inputs,
                  "input_bytes": sum(t.numel() * t.element_size() for t in stack.tensors),
                  "parameters": len(list(stack.module.parameters())), "modules": len(list(stack.module.modules())),
                  "breaks": stack.breaks, "items": stack.items, "loop": stack.loop, "compile_s": round(time.time() - start, 2)}


def sample(stack):
    """Microseconds: a loop of Python just before; a call in a loop, without and with the device's rest; in a burst; alone."""
    loop = timing.python_loop_us()
    call = stack.call
    with stack.under():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5):
            call()
        count = max(30, min(200, int(15e-3 / ((time.perf_counter() - start) / 5))))
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        end = time.perf_counter()
        torch.cuda.synchronize()
        last = time.perf_counter()
        burst, idle = [], []
        for _ in range(3):
            torch.cuda.synchronize()
            one = time.perf_counter()
            for _ in range(8):
                call()
            burst.append((time.perf_counter() - one) / 8 * 1e6)
        for _ in range(5):
            torch.cuda.synchronize()
            one = time.perf_counter()
            call()
            idle.append((time.perf_counter() - one) * 1e6)
        torch.cuda.synchronize()
    return loop, (end - start) / count * 1e6, (last - start) / count * 1e6, sorted(burst)[1], sorted(idle)[2]


def worker(index, wait, args, begin):
    tune_alone(f"{args.out}/device.lock")
    torch.manual_seed(0)
    define()
    with open(f"{args.out}/compiled_host-{index}.jsonl", "a") as out:
        def put(result):
            out.write(json.dumps(result) + "\n")
            out.flush()
        if index == 0:
            put({"machine": timing.machine()})
        ready = []
        for stack in [s for s in STACKS if re.search(args.only, s.name)][index::args.workers]:
            if time.time() - begin > 0.7 * args.seconds:
                print("left out, no time:", stack.name, flush=True)
                continue
            try:
                compile_stack(stack)
                ready.append(stack)
            except Exception as error:
                put({"stack": stack.name, "error": repr(error)[:400]})
                print("ERR", stack.name, repr(error)[:300], flush=True)
        gc.collect()
        gc.freeze()
        while wait():
            for stack in ready:
                stack.samples.append(sample(stack))
            put({"probe": timing.host_probe()})
        samples = [s for stack in ready for s in stack.samples]
        best = min((s[0] for s in samples), default=0)
        for stack in ready:
            quiet = [s for s in stack.samples if s[0] <= 1.2 * best]
            chosen = quiet if len(quiet) >= 3 else stack.samples
            if not chosen:
                continue
            values = {name: timing.summary([s[i] for s in chosen], 2) for i, name in ((1, "loop_us"), (2, "step_us"), (3, "burst_us"), (4, "idle_us"))}
            put(stack.info | values | {"python_loop_us": round(sorted(s[0] for s in chosen)[len(chosen) // 2], 1), "quiet_rounds": len(quiet),
                                       "rounds": len(stack.samples)})
            print(f"{stack.name:32s} loop {values['loop_us']['median']:8.1f} [{values['loop_us']['p10']:8.1f} {values['loop_us']['p90']:8.1f}] burst "
                  f"{values['burst_us']['median']:8.1f} idle {values['idle_us']['median']:8.1f} quiet {len(quiet)} graphs {stack.info['graphs']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9, help="compile no stack after 0.7 of this, start no round after it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    begin = time.time()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    workers = Workers(args.workers, lambda index, wait: worker(index, wait, args, begin))
    for index in range(args.workers):
        workers.ready(index, 300)
    print(f"{time.time() - begin:.0f} s: compiled", flush=True)
    for turn in range(args.rounds):
        if time.time() - begin > args.seconds:
            print(f"{turn} rounds, no time for more", flush=True)
            break
        for index in range(args.workers):
            workers.go(index, 60)
    workers.end()
    print(f"{time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
