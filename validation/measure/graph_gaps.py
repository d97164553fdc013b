# SPDX-License-Identifier: Apache-2.0
"""What lies between two nodes of a CUDA graph: chains of one or two operations, and whole networks, replayed with and without profiler.

usage: graph_gaps.py OUT [--seconds N]

OUT/graph_chains.jsonl: microseconds a node takes in a replay without profiler, and (with it) the medians of its kernels' durations and
of the gaps before them. OUT/graph_nodes/ROW.csv: the nodes of one profiled replay in order.
"""
import argparse
import csv
import json
import os
import re
import statistics
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
import networks
import timing

BF16 = torch.bfloat16
NETWORKS = ("gpt2_B1_T128", "gpt2_B8_T1024", "encoder_B32_T512", "resnet50_B1", "resnet50_B64", "vit_b16_B64", "vit_b16_B1", "llama_160m_B1_T128",
            "llama_160m_lib_B1_T128", "hand_ln_gelu_N256", "ln_gelu_N256", "hand_ln_gelu_N16384", "seed_decoder_B4_T1024", "seed_decoder_B1_T256",
            "gpt2_decode_B8_S1024", "moe_grouped_N256", "gpt2_unfused_B1_T128", "mlp_N64")


def capture(f):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            f()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = f()
    return graph, kept


def period_us(graph, replays=10, groups=15):
    """Microseconds of a replay among others that follow each other."""
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    out = []
    for _ in range(groups):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        graph.replay()
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        out.append(start.elapsed_time(end) * 1e3 / replays)
    return statistics.median(out)


def nodes(graph, replays=3):
    """[(name, kind, grid, block, start, us)] of the last of some profiled replays that follow each other."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
    gpu = sorted((e for e in timing.read_trace(prof) if e.get("cat") in timing.GPU_CATEGORIES), key=lambda e: e["ts"])
    last = gpu[len(gpu) - len(gpu) // replays:]
    return [(timing.short_kernel(e["name"]), timing.GPU_CATEGORIES[e["cat"]], timing.dims(e["args"].get("grid")),
             timing.dims(e["args"].get("block")), e["ts"], e["dur"]) for e in last]


def chains():
    def ew(n, dtype=BF16):
        x, o = torch.randn(n, device="cuda", dtype=dtype), torch.empty(n, device="cuda", dtype=dtype)
        return lambda: torch.mul(x, 0.5, out=o)

    def follow(n, f):
        state = [torch.randn(n, device="cuda", dtype=BF16) for _ in range(2)]

        def step():
            f(state[0], state[1])
            state.reverse()
        return step

    def strided(rows, columns):
        x, m, o = (torch.randn(*s, device="cuda", dtype=BF16) for s in ((rows, columns), (rows, 1), (rows, columns)))
        return lambda: torch.mul(x, m, out=o)

    def rows_of(rows, columns, f):
        x = torch.randn(rows, columns, device="cuda", dtype=BF16)
        return lambda: f(x)

    def product(m, n, k):
        x, w = torch.randn(m, k, device="cuda", dtype=BF16), torch.randn(n, k, device="cuda", dtype=BF16)
        return lambda: F.linear(x, w)

    def attention(b, h, t):
        q = torch.randn(b, h, t, 64, device="cuda", dtype=BF16)
        return lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)

    def zero(n):
        x = torch.empty(n, device="cuda", dtype=torch.uint8)
        return lambda: x.zero_()

    def copy(n):
        x, o = (torch.empty(n, device="cuda", dtype=torch.uint8) for _ in range(2))
        return lambda: o.copy_(x)
    for n in (256, 1 << 14, 1 << 17, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24, 1 << 25):
        yield f"mul/{n}", [ew(n)]
        yield f"mul_dependent/{n}", [follow(n, lambda a, b: torch.mul(a, 0.5, out=b))]
    for r in (1, 64, 256, 1024, 4096, 16384):
        yield f"mul_rows/{r}x4096", [strided(r, 4096)]
        yield f"mean/{r}x4096", [rows_of(r, 4096, lambda x: x.mean(-1, keepdim=True))]
        yield f"layer_norm/{r}x4096", [rows_of(r, 4096, lambda x: F.layer_norm(x, (4096,)))]
        yield f"softmax/{r}x4096", [rows_of(r, 4096, lambda x: x.softmax(-1))]
    for m, n, k in ((1, 768, 768), (128, 768, 768), (128, 3072, 768), (1024, 768, 3072), (1, 4096, 4096), (2048, 4096, 4096), (8192, 768, 768)):
        yield f"linear/{m}x{n}x{k}", [product(m, n, k)]
        yield f"linear/{m}x{n}x{k}+mul/{m * n}", [product(m, n, k), ew(m * n)]
    for b, t in ((1, 128), (1, 1024), (8, 1024)):
        yield f"attention/{b}x12x{t}", [attention(b, 12, t)]
        yield f"attention/{b}x12x{t}+mul/{b * t * 768}", [attention(b, 12, t), ew(b * t * 768)]
    for n in (4, 1 << 12, 1 << 20, 1 << 24):
        yield f"memset/{n}", [zero(n)]
        yield f"memset/{n}+mul/{1 << 17}", [zero(n), ew(1 << 17)]
        yield f"copy/{n}", [copy(n)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    os.makedirs(f"{args.out}/graph_nodes", exist_ok=True)
    torch.set_grad_enabled(False)
    begin = time.time()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    with open(f"{args.out}/graph_chains.jsonl", "w") as file:
        for name, parts in chains():
            try:
                count = 60

                def run():
                    return [f() for _ in range(count) for f in parts]
                graph, kept = capture(run)
                period = period_us(graph)
                got = nodes(graph)
                per = len(got) // count
                kinds = []
                for i in range(per):
                    mine = [j for j in range(len(got)) if j % per == i and j > 0]
                    kinds.append({"kernel": got[i][0], "kind": got[i][1], "grid": got[i][2], "block": got[i][3],
                                  "us": round(statistics.median(got[j][5] for j in mine), 3),
                                  "gap_before_us": round(statistics.median(got[j][4] - got[j - 1][4] - got[j - 1][5] for j in mine), 3)})
                out = {"chain": name, "period_us": round(period / count, 4), "nodes": kinds}
                graph.reset()
            except Exception as error:
                out = {"chain": name, "error": repr(error)[:300]}
            file.write(json.dumps(out) + "\n")
            file.flush()
            torch.cuda.empty_cache()
    print(f"chains: {time.time() - begin:.0f} s", flush=True)
    summary = open(f"{args.out}/graph_nodes/steps.jsonl", "w")
    for row in networks.ROWS:
        if row.name not in NETWORKS or time.time() - begin > args.seconds:
            continue
        try:
            torch.manual_seed(0)
            torch.set_default_dtype(row.dtype)
            with torch.device("cuda"):
                model, inputs = row.build()
            torch.set_default_dtype(torch.float32)
            model = model.eval()
            graph, kept = capture(lambda: model(*inputs))
            step = timing.step_times(graph.replay, budget_s=0.5)
            period = period_us(graph)
            got = nodes(graph, 4)
            with open(f"{args.out}/graph_nodes/{row.name}.csv", "w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["kernel", "kind", "grid", "block", "start_us", "us"])
                for k in got:
                    writer.writerow([k[0], k[1], k[2], k[3], round(k[4] - got[0][4], 3), round(k[5], 3)])
            summary.write(json.dumps({"row": row.name, "step_ms": step, "period_us": round(period, 3), "nodes": len(got),
                                      "busy_us": round(sum(k[5] for k in got), 2)}) + "\n")
            summary.flush()
            graph.reset()
            del model, inputs, kept, graph
            torch.cuda.empty_cache()
        except Exception as error:
            print("ERR", row.name, repr(error)[:300], flush=True)
    print(f"graph gaps took {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
