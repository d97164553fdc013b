# SPDX-License-Identifier: Apache-2.0
"""Host microseconds of each kind of framework operation inside real modules, by differences.

usage: host_ops.py OUT [--only REGEX] [--seconds N] [--rounds N]

A stack of distinct layers (distinct parameters; each with norms, linears, views, attention, elementwise operations) runs on an
empty queue with tiny tensors. Then each layer also does the operation under test r = 1, 2, 4 times, in different places between
the others and each time on other tensors. The slope of host time over r is what the operation costs in place; a loop over
nothing but the operation gives the hot price next to it. The cost of calling a Python function that does nothing ("nop") is
taken off both. All operations are measured once per round, in many rounds, so that slow spells of the machine meet them all, and
every sample is scaled by its own round's stack time. Results are appended to OUT/host_ops.jsonl; tables.py makes the table.
"""
import argparse
import json
import re
import statistics
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.nn as nn
import torch.nn.functional as F
import timing

DEV, BF16 = "cuda", torch.bfloat16
LAYERS, PLACES, D, H, T = 16, 4, 64, 4, 16


class Nothing(nn.Module):
    def forward(self, x):
        return x


class Layer(nn.Module):
    def __init__(self, dtype, grad):
        super().__init__()
        def t(*shape, dt=dtype):
            return torch.randn(*shape, device=DEV, dtype=dt)
        def leaves(*shape, dt=dtype):
            return [t(*shape, dt=dt).requires_grad_(grad) for _ in range(PLACES)]
        def some(make):
            return [make() for _ in range(PLACES)]
        def modules(make):
            return nn.ModuleList(make().to(DEV, dtype).eval() for _ in range(PLACES))
        # what every layer does
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.fc1, self.fc2, self.fc3, self.fc4 = (nn.Linear(D, D, bias=i % 2 == 0) for i in range(4))
        self.w = nn.Parameter(torch.ones(D))
        self.to(DEV, dtype)
        # what the operations under test take
        self.keep = []
        self.xs, self.ys, self.fs = leaves(2, T, D), leaves(2, T, D), leaves(2, T, D, dt=torch.float32)
        self.ms, self.ws, self.bs, self.b3 = leaves(32, D), leaves(D, D), leaves(D), leaves(4, D, D)
        self.qs, self.ks, self.vs = leaves(1, H, 64, D), leaves(1, H, 64, D), leaves(1, H, 64, D)
        self.kts = [k.transpose(-2, -1) for k in self.ks]
        self.kg, self.vg = leaves(1, H // 2, 64, D), leaves(1, H // 2, 64, D)
        self.q1 = leaves(1, H, 1, D)
        self.mask = some(lambda: torch.tril(torch.ones(64, 64, dtype=torch.bool, device=DEV)))
        self.mask1 = some(lambda: torch.ones(1, 1, 1, 64, dtype=torch.bool, device=DEV))
        self.fmask = some(lambda: torch.tril(torch.ones(64, 64, device=DEV, dtype=dtype)))
        self.cache, self.k1 = some(lambda: t(1, H, 64, D)), some(lambda: t(1, H, 1, D))
        self.pos = some(lambda: torch.tensor([5], device=DEV))
        self.ids = some(lambda: torch.randint(0, 32, (32,), device=DEV))
        self.ids2 = some(lambda: torch.randint(0, 32, (2, 16), device=DEV))
        self.rows = some(lambda: torch.randint(0, 32, (32, 1), device=DEV).expand(32, D).contiguous())
        self.plain, self.plain2, self.plain3 = some(lambda: t(32, D)), some(lambda: t(2, T, D)), some(lambda: t(32, D))
        self.scores = some(lambda: t(32, 8, dt=torch.float32))
        self.experts = some(lambda: torch.randint(0, 4, (32,), device=DEV))
        self.ends = some(lambda: torch.tensor([8, 16, 24, 32], device=DEV, dtype=torch.int32))
        self.img = [torch.randn(2, 16, 8, 8, device=DEV, dtype=dtype).contiguous(memory_format=torch.channels_last).requires_grad_(grad) for _ in range(PLACES)]
        self.pos_int = [3, 4, 5, 6]
        self.table = leaves(32, D)
        self.lin, self.linb = modules(lambda: nn.Linear(D, D, bias=False)), modules(lambda: nn.Linear(D, D))
        self.norm, self.rms = modules(lambda: nn.LayerNorm(D)), modules(lambda: nn.RMSNorm(D))
        self.emb, self.drop, self.none = modules(lambda: nn.Embedding(32, D)), modules(lambda: nn.Dropout(0.1)), modules(Nothing)
        self.relu = modules(lambda: nn.ReLU(inplace=True))
        self.gelu = modules(lambda: nn.GELU())
        self.conv3 = modules(lambda: nn.Conv2d(16, 16, 3, padding=1, bias=False).to(memory_format=torch.channels_last))
        self.conv1 = modules(lambda: nn.Conv2d(16, 16, 1, bias=False).to(memory_format=torch.channels_last))
        self.bn, self.pool = modules(lambda: nn.BatchNorm2d(16)), modules(lambda: nn.MaxPool2d(3, 2, 1))
        self.avg, self.gn = modules(lambda: nn.AdaptiveAvgPool2d(1)), modules(lambda: nn.GroupNorm(4, 16))
        self.mha = modules(lambda: nn.MultiheadAttention(D, H, batch_first=True))
        self.seq = modules(lambda: nn.Sequential(Nothing(), Nothing()))

    def forward(self, x, f, r):
        b, n, c = x.shape
        y = self.ln1(x)
        if r > 0:
            f(self, 0)
        y = self.fc1(y)
        q = y.view(b, n, H, c // H).transpose(1, 2)
        if r > 1:
            f(self, 1)
        k, v = (u.view(b, n, H, c // H).transpose(1, 2) for u in self.fc2(y).mul(self.w).split(c, 2) * 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if r > 2:
            f(self, 2)
        x = x + self.fc3(o.transpose(1, 2).reshape(b, n, c))
        y = F.gelu(self.ln2(x)).float()
        y = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x)
        if r > 3:
            f(self, 3)
        return torch.cat((x[..., : c // 2], self.fc4(y)[..., c // 2:]), -1)


class Stack(nn.Module):
    def __init__(self, dtype, grad):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dtype, grad) for _ in range(LAYERS))
        self.x = torch.randn(2, T, D, device=DEV, dtype=dtype)

    def forward(self, f, r):
        x = self.x
        for layer in self.layers:
            x = layer(x, f, r)
        return x


def set_cache(L, i):
    L.cache[i][:, :, L.pos[i]] = L.k1[i]


def set_slice(L, i):
    L.cache[i][:, :, L.pos_int[i]: L.pos_int[i] + 1] = L.k1[i]


def iterate(L, i):
    for _ in L.none:
        pass


# name: (function, may run with gradients). "sync" in the third place: the call waits for the device.
OPS = {
    "nop": (lambda L, i: L.xs[i], True),
    # products
    "linear": (lambda L, i: F.linear(L.xs[i], L.ws[i]), True),
    "linear_bias": (lambda L, i: F.linear(L.xs[i], L.ws[i], L.bs[i]), True),
    "module_linear": (lambda L, i: L.lin[i](L.xs[i]), True),
    "module_linear_bias": (lambda L, i: L.linb[i](L.xs[i]), True),
    "mm": (lambda L, i: torch.mm(L.ms[i], L.ws[i]), True),
    "matmul_3d_2d": (lambda L, i: L.xs[i] @ L.ws[i], True),
    "bmm": (lambda L, i: torch.bmm(L.b3[i], L.b3[i]), True),
    "matmul_4d": (lambda L, i: L.qs[i] @ L.kts[i], True),
    "grouped_mm": (lambda L, i: torch._grouped_mm(L.ms[i], L.b3[i].transpose(-2, -1), offs=L.ends[i]), False),
    # elementwise
    "add": (lambda L, i: L.xs[i] + L.ys[i], True),
    "add_broadcast": (lambda L, i: L.xs[i] + L.bs[i], True),
    "add_scalar": (lambda L, i: L.xs[i] + 1e-5, True),
    "add_inplace": (lambda L, i: L.plain2[i].add_(L.xs[i]), False),
    "sub": (lambda L, i: L.xs[i] - L.ys[i], True),
    "mul": (lambda L, i: L.xs[i] * L.ys[i], True),
    "mul_broadcast": (lambda L, i: L.xs[i] * L.bs[i], True),
    "mul_scalar": (lambda L, i: L.xs[i] * 0.125, True),
    "div": (lambda L, i: L.xs[i] / L.ys[i], True),
    "neg": (lambda L, i: -L.xs[i], True),
    "pow2": (lambda L, i: L.fs[i].pow(2), True),
    "rsqrt": (lambda L, i: torch.rsqrt(L.fs[i]), True),
    "exp": (lambda L, i: L.xs[i].exp(), True),
    "tanh": (lambda L, i: torch.tanh(L.xs[i]), True),
    "sigmoid": (lambda L, i: torch.sigmoid(L.xs[i]), True),
    "relu": (lambda L, i: F.relu(L.xs[i]), True),
    "module_relu_inplace": (lambda L, i: L.relu[i](L.plain2[i]), False),
    "gelu": (lambda L, i: F.gelu(L.xs[i]), True),
    "gelu_tanh": (lambda L, i: F.gelu(L.xs[i], approximate="tanh"), True),
    "module_gelu": (lambda L, i: L.gelu[i](L.xs[i]), True),
    "silu": (lambda L, i: F.silu(L.xs[i]), True),
    "masked_fill": (lambda L, i: L.qs[i].masked_fill(L.mask[i], float("-inf")), True),
    "eq_scalar": (lambda L, i: L.fmask[i] == 0, True),
    "where": (lambda L, i: torch.where(L.mask[i], L.qs[i], L.ks[i]), True),
    "dropout_eval": (lambda L, i: F.dropout(L.xs[i], 0.1, False), True),
    "module_dropout_eval": (lambda L, i: L.drop[i](L.xs[i]), True),
    "dropout_train": (lambda L, i: F.dropout(L.xs[i], 0.1, True), True),
    # casts and copies
    "float": (lambda L, i: L.xs[i].float(), True),
    "to_bf16": (lambda L, i: L.fs[i].to(BF16), True),
    "type_as": (lambda L, i: L.fs[i].type_as(L.xs[i]), True),
    "to_same": (lambda L, i: L.xs[i].to(L.xs[i].dtype), True),
    "to_device_same": (lambda L, i: L.xs[i].to(DEV), True),
    "contiguous_same": (lambda L, i: L.xs[i].contiguous(), True),
    "contiguous_copy": (lambda L, i: L.kts[i].contiguous(), True),
    "reshape_copy": (lambda L, i: L.kts[i].reshape(1, H * D, 64), True),
    "clone": (lambda L, i: L.xs[i].clone(), True),
    "copy_": (lambda L, i: L.plain2[i].copy_(L.xs[i]), False),
    # views
    "view": (lambda L, i: L.xs[i].view(2, T, H, D // H), True),
    "reshape": (lambda L, i: L.xs[i].reshape(2, T, H, D // H), True),
    "flatten": (lambda L, i: L.xs[i].flatten(-2), True),
    "transpose": (lambda L, i: L.xs[i].transpose(1, 2), True),
    "permute": (lambda L, i: L.qs[i].permute(2, 0, 3, 1), True),
    "unsqueeze": (lambda L, i: L.xs[i].unsqueeze(1), True),
    "expand": (lambda L, i: L.bs[i].expand(2, T, -1), True),
    "select": (lambda L, i: L.xs[i][..., 0], True),
    "select_dim0": (lambda L, i: L.xs[i][0], True),
    "slice": (lambda L, i: L.xs[i][:, :4], True),
    "slice_last": (lambda L, i: L.xs[i][..., : D // 2], True),
    "slice_two": (lambda L, i: L.mask[i][:16, :16], True),
    "index_none": (lambda L, i: L.xs[i][:, None], True),
    "split": (lambda L, i: L.xs[i].split(D // 4, 2), True),
    "chunk2": (lambda L, i: L.xs[i].chunk(2, -1), True),
    "unbind3": (lambda L, i: L.b3[i][:3].unbind(0), True),
    # reductions and norms
    "sum_last": (lambda L, i: L.xs[i].sum(-1), True),
    "sum_all": (lambda L, i: L.xs[i].sum(), True),
    "mean_last": (lambda L, i: L.fs[i].mean(-1, keepdim=True), True),
    "softmax": (lambda L, i: L.xs[i].softmax(-1), True),
    "softmax_fp32": (lambda L, i: F.softmax(L.fs[i], dim=-1), True),
    "layer_norm": (lambda L, i: F.layer_norm(L.xs[i], (D,), L.bs[i], L.bs[i]), True),
    "module_layer_norm": (lambda L, i: L.norm[i](L.xs[i]), True),
    "rms_norm": (lambda L, i: F.rms_norm(L.xs[i], (D,), L.bs[i], 1e-5), True),
    "module_rms_norm": (lambda L, i: L.rms[i](L.xs[i]), True),
    "argmax": (lambda L, i: L.xs[i].argmax(-1), True),
    "topk": (lambda L, i: torch.topk(L.scores[i], 2, dim=-1), True),
    "sort": (lambda L, i: torch.sort(L.experts[i]), True),
    "argsort": (lambda L, i: torch.argsort(L.experts[i]), True),
    "cumsum": (lambda L, i: torch.cumsum(L.experts[i], 0), True),
    "histc": (lambda L, i: torch.histc(L.ends[i], bins=8, min=0, max=7), False),
    "cross_entropy": (lambda L, i: F.cross_entropy(L.fs[i][0], L.ids[i][:T]), True),
    # attention
    "sdpa_full": (lambda L, i: F.scaled_dot_product_attention(L.qs[i], L.ks[i], L.vs[i]), True),
    "sdpa_causal": (lambda L, i: F.scaled_dot_product_attention(L.qs[i], L.ks[i], L.vs[i], is_causal=True), True),
    "sdpa_mask": (lambda L, i: F.scaled_dot_product_attention(L.qs[i], L.ks[i], L.vs[i], attn_mask=L.mask[i]), True),
    "sdpa_gqa_causal": (lambda L, i: F.scaled_dot_product_attention(L.qs[i], L.kg[i], L.vg[i], is_causal=True, enable_gqa=True), True),
    "sdpa_decode_mask": (lambda L, i: F.scaled_dot_product_attention(L.q1[i], L.ks[i], L.vs[i], attn_mask=L.mask1[i]), True),
    "sdpa_decode_gqa_mask": (lambda L, i: F.scaled_dot_product_attention(L.q1[i], L.kg[i], L.vg[i], attn_mask=L.mask1[i], enable_gqa=True), True),
    "module_mha": (lambda L, i: L.mha[i](L.xs[i], L.xs[i], L.xs[i], need_weights=False), True),
    # gather, scatter, making
    "embedding": (lambda L, i: F.embedding(L.ids2[i], L.table[i]), True),
    "module_embedding": (lambda L, i: L.emb[i](L.ids2[i]), True),
    "index_rows": (lambda L, i: L.ms[i][L.ids[i]], True),
    "index_select": (lambda L, i: torch.index_select(L.ms[i], 0, L.ids[i]), True),
    "gather": (lambda L, i: torch.gather(L.ms[i], 0, L.rows[i]), True),
    "scatter_": (lambda L, i: L.plain[i].scatter_(0, L.rows[i], L.plain3[i]), False),
    "index_add_": (lambda L, i: L.plain[i].index_add_(0, L.ids[i], L.plain3[i]), False),
    "index_copy_": (lambda L, i: L.cache[i].index_copy_(2, L.pos[i], L.k1[i]), False),
    "index_put_cache": (set_cache, False),
    "slice_assign_cache": (set_slice, False),
    "cat": (lambda L, i: torch.cat((L.xs[i], L.ys[i]), -1), True),
    "stack": (lambda L, i: torch.stack((L.xs[i], L.ys[i]), -1), True),
    "one_hot": (lambda L, i: F.one_hot(L.experts[i], 8), True),
    "arange": (lambda L, i: torch.arange(64, device=DEV), True),
    "empty": (lambda L, i: torch.empty(2, T, D, device=DEV), True),
    "zeros": (lambda L, i: torch.zeros(2, T, D, device=DEV), True),
    "zeros_like": (lambda L, i: torch.zeros_like(L.xs[i]), True),
    # convolution networks
    "conv2d_3x3": (lambda L, i: F.conv2d(L.img[i], L.conv3[i].weight, padding=1), True),
    "module_conv2d_3x3": (lambda L, i: L.conv3[i](L.img[i]), True),
    "module_conv2d_1x1": (lambda L, i: L.conv1[i](L.img[i]), True),
    "module_batch_norm_eval": (lambda L, i: L.bn[i](L.img[i]), True),
    "module_max_pool": (lambda L, i: L.pool[i](L.img[i]), True),
    "module_adaptive_avg_pool": (lambda L, i: L.avg[i](L.img[i]), True),
    "module_group_norm": (lambda L, i: L.gn[i](L.img[i]), True),
    # Python around the operations
    "module_call": (lambda L, i: L.none[i](L.xs[i]), True),
    "module_list_of_4_iterate": (iterate, True),
    "sequential_of_2_empty": (lambda L, i: L.seq[i](L.xs[i]), True),
    "shape_unpack": (lambda L, i: tuple(L.xs[i].shape), True),
    # these wait for the device
    "nonzero": (lambda L, i: torch.nonzero(L.mask1[i]), False, "sync"),
    "where_indices": (lambda L, i: torch.where(L.mask1[i]), False, "sync"),
    "index_bool_mask": (lambda L, i: L.mask1[i][L.mask1[i]], False, "sync"),
    "item": (lambda L, i: L.pos[i].item(), False, "sync"),
}
AUTOCAST = ("nop", "linear", "linear_bias", "module_linear", "module_linear_bias", "mm", "matmul_4d", "bmm", "layer_norm", "module_layer_norm",
            "rms_norm", "softmax", "sdpa_causal", "sdpa_full", "gelu", "silu", "add", "mul", "mean_last", "view", "module_conv2d_3x3",
            "module_batch_norm_eval", "embedding", "cross_entropy")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--rounds", type=int, default=16)
    args = parser.parse_args()
    begin = time.time()
    out = open(f"{args.out}/host_ops.jsonl", "a")

    def put(result):
        out.write(json.dumps(result) + "\n")
        out.flush()
    put({"machine": timing.machine()})
    torch.manual_seed(0)
    for mode in ("no_grad", "grad", "autocast_grad", "autocast_no_grad"):
        grad, autocast = not mode.endswith("no_grad"), mode.startswith("autocast")
        stack = Stack(torch.float32 if autocast else BF16, grad)
        first = stack.layers[0]

        def timed(f, r):
            torch.cuda.synchronize()
            with torch.set_grad_enabled(grad), torch.autocast("cuda", BF16, enabled=autocast):
                start = time.perf_counter()
                y = stack(f, r)
                end = time.perf_counter()
            for layer in stack.layers:
                layer.keep.clear()
            del y
            return (end - start) * 1e6
        samples = {}  # of each operation, one per round: host time of the stack for each r, and of the hot loop
        for turn in range(args.rounds):
            if time.time() - begin > args.seconds:
                print(f"{mode}: {turn} rounds, no time for more", flush=True)
                break
            for name, entry in OPS.items():
                if name != "nop" and (not re.search(args.only, name) or (grad and not entry[1]) or (autocast and name not in AUTOCAST)):
                    continue
                if samples.get(name, []) is None:
                    continue
                f = entry[0]
                # with gradients a forward pass keeps its results for the backward pass; without, they are freed at once
                g = (lambda L, i, f=f: L.keep.append(f(L, i))) if grad else f
                try:
                    timed(g, 4)
                    one = {r: timed(g, r) for r in (0, 1, 2, 4)}
                    with torch.set_grad_enabled(grad), torch.autocast("cuda", BF16, enabled=autocast):
                        one["hot"] = timing.hot_loop_us(lambda: f(first, 0), calls=100, rounds=1, warm=5)
                    samples.setdefault(name, []).append(one)
                except Exception as error:
                    samples[name] = None
                    put({"op": name, "mode": mode, "error": repr(error)[:300]})
                    print("ERR", mode, name, repr(error)[:200], flush=True)
                    for layer in stack.layers:
                        layer.keep.clear()
            put({"probe": timing.host_probe(), "mode": mode, "round": turn})
        if not samples:
            continue
        quiet = timing.quantile([one[0] for v in samples.values() if v for one in v], 0.25)
        profiled, nothing = [], None
        for name, v in samples.items():
            if not v:
                continue
            # the machine has slow and fast spells: every sample is taken relative to its own stack without the operation
            def median(f):
                return statistics.median(f(one) * quiet / one[0] for one in v)

            def slope(one):
                times = [(r, one[r]) for r in (0, 1, 2, 4)]
                middle = sum(t for _, t in times) / 4
                return sum((r - 1.75) * (t - middle) for r, t in times) / 8.75 / LAYERS
            slopes = [slope(one) * quiet / one[0] for one in v]
            result = {"op": name, "mode": mode, "slope_us": round(median(slope), 3), "first_us": round(median(lambda one: (one[1] - one[0]) / LAYERS), 3),
                      "slope_p25": round(timing.quantile(slopes, 0.25), 3), "slope_p75": round(timing.quantile(slopes, 0.75), 3),
                      "raw_us": round(statistics.median(slope(one) for one in v), 3), "hot_us": round(median(lambda one: one["hot"]), 3),
                      "rounds": len(v), "base_us": round(quiet, 1), "base_median_us": round(statistics.median(one[0] for one in v), 1),
                      "note": OPS[name][2] if len(OPS[name]) > 2 else ""}
            nothing = nothing or result  # "nop" comes first
            result["in_situ_us"] = round(result["slope_us"] - nothing["slope_us"], 3)
            result["first_in_situ_us"] = round(result["first_us"] - nothing["first_us"], 3)
            result["hot_loop_us"] = round(result["hot_us"] - nothing["hot_us"], 3)
            put(result)
            print(f"{mode:17s} {name:26s} in place {result['in_situ_us']:8.2f} [{result['slope_p25']:8.2f} {result['slope_p75']:8.2f}] first "
                  f"{result['first_in_situ_us']:8.2f}  hot {result['hot_loop_us']:8.2f}", flush=True)

            def setup(f=OPS[name][0]):
                return [lambda f=f, i=i: f(first, i) for i in range(2)]
            profiled.append((name, setup))
        print(f"{time.time() - begin:5.0f} s {mode}: stack {quiet:.0f} us", flush=True)
        if mode in ("no_grad", "autocast_grad"):
            with torch.set_grad_enabled(grad), torch.autocast("cuda", BF16, enabled=autocast):
                for name, r in timing.profile_cases(profiled, repetitions=3):
                    put({"kernels_of": name, "mode": mode, "kernels": r.get("kernels", 0),
                         "names": [timing.short_kernel(k[0], 60) for k in r.get("parts", [])]})
        del stack, first
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
