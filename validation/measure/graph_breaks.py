# SPDX-License-Identifier: Apache-2.0
"""What Dynamo compiles around graph breaks, and which entry of its cache runs for which shape.

usage: graph_breaks.py OUT

Writes OUT/graph_breaks.json: per program the calls in each graph, and which graphs a second call runs, in order; and
OUT/compiled_entries.json: per sequence of shapes which calls compile and which entry runs (nothing: eagerly). The backend only writes
down what it is given.
"""
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch._dynamo as dynamo

DEV = "cuda"
graph_break = dynamo.graph_break
graphs, ran = [], []


def backend(module, inputs):
    graphs.append([str(getattr(n.target, "__name__", n.target)) for n in module.graph.nodes if n.op.startswith("call")])
    number = len(graphs) - 1

    def run(*args):
        ran.append(number)
        return module.forward(*args)
    return run


class Block(nn.Module):
    def __init__(self, broken=False):
        super().__init__()
        self.l, self.broken = nn.Linear(64, 64), broken

    def forward(self, x):
        y = F.relu(x)
        if self.broken:
            graph_break()
        return self.l(y) + 1


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        x = torch.sin(x)
        for block in self.blocks:
            x = block(x)
            graph_break()
        return torch.cos(x)


class Program(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.e, self.n = kind, nn.Linear(64, 64), nn.LayerNorm(64)
        self.blocks = nn.ModuleList(Block(kind == "in_block_loop" and i == 1) for i in range(3))
        self.broken, self.inner = Block(True), Inner()

    def function(self, x):
        return torch.tanh(x) * 2

    def forward(self, x):
        kind = self.kind
        x = self.function(torch.exp(self.e(x)))
        if kind in ("before_loop", "before_and_in_loop"):
            graph_break()
        if kind == "twice":
            graph_break()
            graph_break()
        if kind == "straight_block":
            x = self.broken(x)
        if kind == "inner_loop":
            x = self.inner(x)
        for i, block in enumerate(self.blocks):
            if kind in ("in_loop", "before_and_in_loop", "in_and_after_loop") and i == 1:
                graph_break()
            x = block(x)
        if kind in ("after_loop", "in_and_after_loop"):
            graph_break()
        if kind == "item":
            if x.flatten()[0].item() > 1e30:
                x = x * 2
        if kind == "print":
            print("", end="")
        if kind == "branch":
            if x.sum() > 1e30:
                x = x * 2
        if kind == "shape_if":
            if x.shape[0] > 10:
                x = x * 2
        if kind == "nonzero":
            x = x[x > 0].view(-1)[:64].view(1, 64)
        if kind == "cpu":
            x.sum().cpu()
            x = x + 1
        if kind == "numpy":
            x.sum().cpu().numpy()
            x = x + 1
        return self.function(self.n(x))


def first(x):
    graph_break()
    return torch.sin(x)


def last(x):
    x = torch.sin(x)
    graph_break()
    return x


def lst(x):
    return torch.stack([row * 2 for row in x.unbind(0)]).sum()


def floats(x):
    for c in (0.1, 0.2, 0.3):
        x = x + c
    return x


def d14(x):
    y = torch.sin(x)
    if y.mean() > 0:
        y = y * 2
    print("", end="")
    for c in (0.1, 0.2):
        y = y + c
    return torch.relu(y)


KINDS = ("none", "before_loop", "twice", "in_loop", "before_and_in_loop", "after_loop", "in_and_after_loop", "in_block_loop",
         "straight_block", "inner_loop", "item", "print", "branch", "shape_if", "nonzero", "cpu", "numpy")


def one(x):
    return torch.sin(x) * 2


def add(a, b):
    return a + b


def branch(x):
    return x * 2 if x.shape[0] > 10 else x * 3


# name: (function, shapes of each call's inputs, options, limit, dimension marked in the first call)
SEQUENCES = {
    "never_limit3": (one, [[(n, 4)] for n in (5, 6, 7, 8, 5, 9, 6, 7)], {"dynamic": False}, 3, None),
    "two_dims": (one, [[(5, 4)], [(6, 4)], [(6, 7)], [(9, 9)], [(6, 4)], [(5, 4)]], {}, 8, None),
    "two_dims_together": (one, [[s] for s in ((5, 4), (6, 7), (9, 9), (5, 4), (9, 1), (1, 9), (1, 1), (7, 7))], {}, 8, None),
    "dynamic_true_equal": (one, [[(8, 8)], [(9, 9)], [(9, 10)], [(11, 12)], [(5, 5)]], {"dynamic": True}, 8, None),
    "dynamic_true_two_tensors": (add, [[(8, 4), (8, 4)], [(9, 4), (9, 4)], [(9, 5), (9, 5)]], {"dynamic": True}, 8, None),
    "automatic_two_tensors": (add, [[(8, 4), (8, 4)], [(9, 4), (9, 4)], [(12, 4), (12, 4)], [(1, 4), (12, 4)], [(12, 4), (1, 4)],
                                    [(7, 4), (7, 4)]], {}, 8, None),
    "first_one": (one, [[(n, 4)] for n in (1, 5, 6, 1, 0, 2)], {}, 8, None),
    "mark": (one, [[(n, 4)] for n in (5, 6, 1, 9)], {}, 8, 0),
    "mark_one": (one, [[(n, 4)] for n in (1, 6)], {}, 8, 0),
    "automatic_limit2": (one, [[(n, 4)] for n in (5, 6, 1, 7, 0, 5)], {}, 2, None),
    "back_to_static": (one, [[(n, 4)] for n in (5, 6, 5, 5)], {}, 8, None),
    "shape_branch_automatic": (branch, [[(n, 4)] for n in (5, 6, 12, 13, 7, 30)], {}, 8, None),
}


def program(name, function):
    dynamo.reset()
    graphs.clear()
    x, compiled = torch.randn(8, 64, device=DEV), torch.compile(function, backend=backend)
    with torch.no_grad():
        for _ in range(2):
            ran.clear()
            compiled(x)
    return {"program": name, "graphs": list(graphs), "second_call_runs": list(ran)}


def sequence(name, function, shapes, options, limit, marked):
    dynamo.reset()
    graphs.clear()
    dynamo.config.recompile_limit = limit
    calls, compiled = [], torch.compile(function, backend=backend, **options)
    for shape in shapes:
        inputs = [torch.randn(*s, device=DEV) for s in shape]
        if marked is not None and not calls:
            dynamo.mark_dynamic(inputs[0], marked)
        before = len(graphs)
        ran.clear()
        compiled(*inputs)
        calls.append({"shape": [n for s in shape for n in s], "compiled": len(graphs) - before, "ran": list(ran)})
    return {"sequence": name, "calls": calls, "limit": limit, "options": options, "marked": marked is not None}


def write(path, rows):
    with open(path, "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    programs = [(kind, Program(kind).to(DEV).eval()) for kind in KINDS] + [(f.__name__, f) for f in (first, last, lst, floats, d14)]
    write(f"{out}/graph_breaks.json", [program(*p) for p in programs])
    write(f"{out}/compiled_entries.json", [sequence(name, *s) for name, s in SEQUENCES.items()])


if __name__ == "__main__":
    main()
