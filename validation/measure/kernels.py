# SPDX-License-Identifier: Apache-2.0
"""GPU durations of the kernels that networks launch: convolutions, small products, attention with masks, rotary embedding,
routing, pooling, casts, copies.

usage: kernels.py OUT [--only REGEX] [--seconds N] [--repetitions N]

Durations come from the profiler, the median of the repetitions; buffers are rotated so that the L2 cache is cold unless the
case's name ends in /hot. Results are appended to OUT/kernels.jsonl as they come; tables.py makes the table. A case is
(name, function that makes the inputs and returns calls to rotate): add yours with case().
Names: family/operation/dtype/shape[/hot|cold]; gemm/bf16/MxNxK is [M,K] x [N,K]^T; reductions have ROWSxCOLS.
"""
import argparse
import json
import re
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.nn.functional as F
import timing

DEV, BF16, FP16, FP32 = "cuda", torch.bfloat16, torch.float16, torch.float32
NAMES = {BF16: "bf16", FP16: "fp16", FP32: "fp32"}
CASES, SEEN = [], set()


def case(name, setup):
    if name not in SEEN:
        SEEN.add(name)
        CASES.append((name, setup))


def sets(nbytes, most=24):
    """How many sets of buffers make repeated runs miss a cache of 60 MiB twice over."""
    return max(1, min(most, (120 << 20) // max(nbytes, 1) + 2)) if nbytes < (1 << 28) else 2


def rnd(*shape, dt=BF16):
    return torch.randn(*shape, device=DEV, dtype=dt)


def size(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors if torch.is_tensor(t))


def rotate(name, make, f, hot=False, most=24):
    """make() gives the inputs of one call as a tuple; f(*inputs) is timed on inputs that are not in the cache."""
    def setup(n=None):
        first = make()
        n = n or sets(size(*first), most)
        inputs = [first] + [make() for _ in range(n - 1)]
        return [lambda a=a: f(*a) for a in inputs]
    case(name + ("/cold" if hot or name.startswith("ew/") else ""), setup)
    if hot:
        case(name + "/hot", lambda: setup(1))


# --- convolutions and what stands around them (ResNet-50, vision transformer) ----------------------------------------------
RESNET = [(3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1), (256, 56, 128, 1, 1),
          (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1), (128, 28, 128, 3, 1),
          (512, 28, 256, 1, 1), (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2), (1024, 14, 256, 1, 1),
          (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1), (1024, 14, 2048, 1, 2),
          (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1)]


def conv(layout, dt, n, c, h, k, r, s, pad=None, bias=False):
    form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    pad = r // 2 if pad is None else pad
    rotate(f"conv_{layout}{'_bias' if bias else ''}/{NAMES[dt]}/N{n}C{c}H{h}K{k}k{r}s{s}",
           lambda: (rnd(n, c, h, h, dt=dt).contiguous(memory_format=form), rnd(k, c, r, r, dt=dt).contiguous(memory_format=form),
                    rnd(k, dt=dt) if bias else None),
           lambda x, w, b: F.conv2d(x, w, b, stride=s, padding=pad), most=6)


for n in (64, 1, 16):
    for c, h, k, r, s in RESNET:
        conv("nhwc", BF16, n, c, h, k, r, s)
for c, h, k, r, s in RESNET[::3]:
    conv("nhwc", FP16, 64, c, h, k, r, s)
for n in (64, 1):
    for c, h, k, r, s in (RESNET[0], RESNET[2], RESNET[3], RESNET[8], RESNET[16], RESNET[20]):
        conv("nchw", BF16, n, c, h, k, r, s)
for n in (1, 8, 64):
    conv("nchw", BF16, n, 3, 224, 768, 16, 16, pad=0, bias=True)


def image(n, c, h, layout="nhwc", dt=BF16):
    return rnd(n, c, h, h, dt=dt).contiguous(memory_format=torch.channels_last if layout == "nhwc" else torch.contiguous_format)


def vectors(c, dt=BF16):
    return rnd(c, dt=dt), rnd(c, dt=dt), rnd(c, dt=dt), rnd(c, dt=dt).abs() + 0.5


for n in (64, 16, 1):
    for c, h in ((64, 112), (64, 56), (256, 56), (128, 28), (512, 28), (1024, 14), (2048, 7)):
        for layout in ("nhwc", "nchw") if n == 64 and c in (64, 256, 2048) else ("nhwc",):
            shape = f"N{n}C{c}H{h}"
            rotate(f"batch_norm_{layout}/bf16/{shape}", lambda n=n, c=c, h=h, l=layout: (image(n, c, h, l), *vectors(c)),
                   lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, False), hot=n != 64, most=8)
            if layout == "nhwc" and n != 16:
                rotate(f"ew/relu_inplace/bf16/{shape}", lambda n=n, c=c, h=h: (image(n, c, h),), lambda x: F.relu_(x), most=8)
                rotate(f"ew/add_inplace/bf16/{shape}", lambda n=n, c=c, h=h: (image(n, c, h), image(n, c, h)), lambda x, y: x.add_(y), most=8)
    for layout in ("nhwc", "nchw"):
        rotate(f"max_pool_{layout}/bf16/N{n}C64H112k3s2", lambda n=n, l=layout: (image(n, 64, 112, l),), lambda x: F.max_pool2d(x, 3, 2, 1), most=6)
        rotate(f"avg_pool_{layout}/bf16/N{n}C2048H7", lambda n=n, l=layout: (image(n, 2048, 7, l),), lambda x: F.adaptive_avg_pool2d(x, 1), most=8)
for n, c, h in ((1, 320, 64), (8, 640, 32), (2, 1280, 16)):
    for layout in ("nhwc", "nchw"):
        rotate(f"group_norm_{layout}/bf16/N{n}C{c}H{h}g32", lambda n=n, c=c, h=h, l=layout: (image(n, c, h, l), rnd(c), rnd(c)),
               lambda x, w, b: F.group_norm(x, 32, w, b), most=8)


# --- products --------------------------------------------------------------------------------------------------------------
def gemm(m, n, k, bias=False):
    rotate(f"gemm{'_bias' if bias else ''}/bf16/{m}x{n}x{k}", lambda: (rnd(m, k), rnd(n, k), rnd(n) if bias else None), F.linear, most=8)


for n, k in ((768, 768), (2304, 768), (3072, 768), (768, 3072)):
    for m in (2, 8, 32, 64, 197, 256, 512, 1576, 2048, 8192, 12608):
        gemm(m, n, k)
    for m in (1, 8, 128, 197, 512, 2048, 8192, 12608, 16384):
        gemm(m, n, k, bias=True)
for n, k in ((4096, 4096), (14336, 4096), (4096, 14336)):
    for m in (12, 24, 48, 96, 192):
        gemm(m, n, k)
for m in (2, 4, 8, 32, 64, 256, 512, 2048):
    gemm(m, 1024, 4096)
for m in (2, 8, 16, 32, 128, 2048):
    gemm(m, 128256, 4096)
for m in (8, 128, 512, 1024, 8192):
    gemm(m, 50304, 768)
for m in (1, 16, 128, 4096):
    gemm(m, 32000, 768), gemm(m, 2048, 768), gemm(m, 768, 2048)
for m in (1, 8, 64):
    gemm(m, 1000, 768, bias=True), gemm(m, 1000, 2048, bias=True)
for m in (16, 256, 2048):
    gemm(m, 8, 2048)
for m in (1, 16, 64, 256, 512, 2048, 4096):
    gemm(m, 14336, 2048), gemm(m, 2048, 7168)
for m in (16, 256, 4096):
    gemm(m, 6144, 2048, bias=True), gemm(m, 2048, 2048, bias=True), gemm(m, 8192, 2048), gemm(m, 2048, 8192)
for m in (1, 64, 1024, 16384):
    gemm(m, 16384, 4096, bias=True), gemm(m, 4096, 16384, bias=True)
for tokens in (32, 512, 4096):
    for n, k in ((14336, 2048), (2048, 7168)):
        rotate(f"grouped_mm/bf16/E8x{tokens}x{n}x{k}",
               lambda t=tokens, n=n, k=k: (rnd(t, k), rnd(8, n, k).transpose(-2, -1),
                                           torch.arange(t // 8, t + 1, t // 8, device=DEV, dtype=torch.int32)),
               lambda x, w, e: torch._grouped_mm(x, w, offs=e), most=3)
for b, h, t, d in ((8, 12, 1024, 64), (1, 12, 128, 64), (2, 12, 256, 64), (4, 32, 512, 128)):
    shape = f"B{b}H{h}T{t}D{d}"

    def bthd(b=b, h=h, t=t, d=d):  # heads as they come out of a projection: (batch, heads, time, size) of a (batch, time, heads, size) tensor
        return rnd(b, t, h, d).transpose(1, 2)
    rotate(f"matmul_qk/bf16/{shape}", lambda f=bthd: (f(), f()), lambda q, k: q @ k.transpose(-2, -1), most=8)
    rotate(f"matmul_av/bf16/{shape}", lambda f=bthd, b=b, h=h, t=t: (rnd(b, h, t, t), f()), lambda a, v: a @ v, most=8)
    rotate(f"bmm_nt/bf16/{b * h}x{t}x{t}x{d}", lambda n=b * h, t=t, d=d: (rnd(n, t, d), rnd(n, t, d)), lambda q, k: torch.bmm(q, k.transpose(1, 2)), most=8)
    rotate(f"bmm/bf16/{b * h}x{t}x{d}x{t}", lambda n=b * h, t=t, d=d: (rnd(n, t, t), rnd(n, t, d)), torch.bmm, most=8)
    # unfused attention between the products
    rotate(f"ew/mul_scalar/bf16/scores{shape}", lambda b=b, h=h, t=t: (rnd(b, h, t, t),), lambda a: a * 0.125, hot=t < 1024, most=8)
    rotate(f"ew/masked_fill/bf16/scores{shape}", lambda b=b, h=h, t=t: (rnd(b, h, t, t), torch.tril(torch.ones(t, t, device=DEV)) == 0),
           lambda a, m: a.masked_fill(m, float("-inf")), hot=t < 1024, most=8)
    rotate(f"red/softmax/bf16/{b * h * t}x{t}", lambda b=b, h=h, t=t: (rnd(b * h * t, t),), lambda a: a.softmax(-1), most=8)
rotate("ew/eq_scalar/bf16/1024x1024", lambda: (rnd(1024, 1024),), lambda m: m == 0, hot=True)


# --- attention -----------------------------------------------------------------------------------------------------------------
def heads(b, h, t, d, layout):
    return rnd(b, t, h, d).transpose(1, 2) if layout == "bthd" else rnd(b, h, t, d)


for b, h, t, d, causal in ((8, 12, 1024, 64, True), (1, 12, 128, 64, True), (2, 12, 256, 64, True), (4, 12, 1024, 64, True), (1, 12, 1024, 64, True),
                           (32, 12, 512, 64, False), (1, 12, 128, 64, False), (8, 12, 256, 64, False), (64, 12, 197, 64, False),
                           (1, 12, 197, 64, False), (8, 12, 197, 64, False), (1, 16, 16, 128, False), (1, 16, 256, 128, False)):
    for layout in ("bhtd", "bthd"):
        rotate(f"sdpa_fwd/bf16/B{b}H{h}T{t}D{d}/{'causal' if causal else 'full'}{'' if layout == 'bhtd' else '/bthd'}",
               lambda b=b, h=h, t=t, d=d, l=layout: tuple(heads(b, h, t, d, l) for _ in range(3)),
               lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c), most=6)
for b, t in ((1, 16), (1, 128), (1, 512), (1, 2048), (4, 2048), (1, 8192)):
    rotate(f"sdpa_gqa_fwd/bf16/B{b}H32Hkv8T{t}D128/causal", lambda b=b, t=t: (heads(b, 32, t, 128, "bthd"), heads(b, 8, t, 128, "bthd"), heads(b, 8, t, 128, "bthd")),
           lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), most=4)
for b, h, hkv, t, d in ((1, 32, 8, 1024, 128), (32, 32, 8, 1024, 128), (8, 32, 8, 4096, 128), (1, 32, 8, 8192, 128), (1, 12, 12, 1024, 64), (8, 12, 12, 1024, 64),
                        (64, 12, 12, 1024, 64), (1, 32, 32, 2048, 128)):
    for masked in (True, False):
        rotate(f"sdpa_decode{'_mask' if masked else ''}/bf16/B{b}H{h}Hkv{hkv}T{t}D{d}",
               lambda b=b, h=h, k=hkv, t=t, d=d, m=masked: (rnd(b, h, 1, d), rnd(b, k, t, d), rnd(b, k, t, d), torch.ones(1, 1, 1, t, device=DEV, dtype=torch.bool) if m else None),
               lambda q, k, v, m, g=h != hkv: F.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=g), most=4)
for b, h, tq, tk, d in ((1, 16, 128, 1024, 64), (8, 16, 64, 2048, 64), (2, 8, 4096, 77, 64)):
    rotate(f"sdpa_cross/bf16/B{b}H{h}Tq{tq}Tk{tk}D{d}", lambda b=b, h=h, q=tq, k=tk, d=d: (rnd(b, h, q, d), rnd(b, h, k, d), rnd(b, h, k, d)),
           lambda q, k, v: F.scaled_dot_product_attention(q, k, v), most=6)
for b, h, t, d in ((8, 12, 512, 64), (1, 12, 128, 64), (4, 16, 1024, 128)):
    rotate(f"sdpa_mask/bf16/B{b}H{h}T{t}D{d}", lambda b=b, h=h, t=t, d=d: (*(rnd(b, h, t, d) for _ in range(3)), torch.tril(torch.ones(t, t, device=DEV, dtype=torch.bool))),
           lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), most=6)

# --- norms and reductions --------------------------------------------------------------------------------------------------------
for rows in (1, 8, 128, 197, 512, 1024, 2048, 8192, 12608):
    rotate(f"red/layer_norm/bf16/{rows}x768", lambda r=rows: (rnd(r, 768), rnd(768), rnd(768)), lambda x, w, b: F.layer_norm(x, (768,), w, b), hot=True, most=16)
for rows, cols in ((1, 4096), (16, 4096), (32, 4096), (2048, 4096), (16, 2048), (256, 2048), (2048, 2048), (4096, 2048), (128, 768)):
    rotate(f"red/rms_norm/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(c)), lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-5), hot=True, most=16)
    # the pieces of the norm written out
    rotate(f"red/mean_last/fp32/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c, dt=FP32),), lambda x: x.mean(-1, keepdim=True), hot=True, most=16)
    rotate(f"ew/pow2/fp32/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c, dt=FP32),), lambda x: x.pow(2), hot=True, most=16)
    rotate(f"ew/mul_rows/fp32/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c, dt=FP32), rnd(r, 1, dt=FP32)), lambda x, y: x * y, hot=True, most=16)
    rotate(f"ew/mul_cols/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(c)), lambda x, y: x * y, hot=True, most=16)
    rotate(f"ew/cast_bf16_fp32/mixed/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c),), lambda x: x.float(), hot=True, most=16)
    rotate(f"ew/cast_fp32_bf16/mixed/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c, dt=FP32),), lambda x: x.to(BF16), hot=True, most=16)
for rows in (1, 32, 2048, 16384):
    rotate(f"ew/add_scalar/fp32/{rows}", lambda r=rows: (rnd(r, 1, dt=FP32),), lambda x: x + 1e-5)
    rotate(f"ew/rsqrt/fp32/{rows}", lambda r=rows: (rnd(r, 1, dt=FP32).abs(),), torch.rsqrt)
for rows, cols in ((16384, 4096), (256, 4096)):
    rotate(f"red/mean_last/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c),), lambda x: x.mean(-1, keepdim=True))
    rotate(f"ew/sub_rows/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(r, 1)), lambda x, y: x - y)
    rotate(f"ew/add_cols/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(c)), lambda x, y: x + y)
    rotate(f"ew/mul_cols/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(c)), lambda x, y: x * y, hot=rows == 256)
    rotate(f"ew/mul_rows/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(r, 1)), lambda x, y: x * y)
    rotate(f"ew/mul_self/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c),), lambda x: x * x)
for rows, cols in ((1, 50304), (8, 50304), (32, 128256), (1, 128256)):
    rotate(f"red/argmax/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c),), lambda x: x.argmax(-1), most=8)

# --- elementwise -------------------------------------------------------------------------------------------------------------------
UNARY = {"gelu_exact": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu, "neg": torch.neg, "exp": torch.exp,
         "tanh": torch.tanh, "sigmoid": torch.sigmoid, "mul_scalar": lambda x: x * 0.5, "add_scalar": lambda x: x + 1.0}
for lg in (10, 14, 17, 20, 22, 24, 26):
    for op, f in UNARY.items():
        if op in ("gelu_exact", "gelu_tanh", "silu", "mul_scalar") or lg in (14, 20, 24, 26):
            rotate(f"ew/{op}/bf16/{1 << lg}", lambda n=1 << lg: (rnd(n),), f, hot=lg < 25 and op in ("gelu_exact", "silu", "mul_scalar"), most=16)
    rotate(f"ew/mul/bf16/{1 << lg}", lambda n=1 << lg: (rnd(n), rnd(n)), torch.mul, hot=lg < 25, most=16)
    rotate(f"ew/add/fp32/{1 << lg}", lambda n=1 << lg: (rnd(n, dt=FP32), rnd(n, dt=FP32)), torch.add, hot=lg < 25, most=16)
    rotate(f"ew/mul/fp32/{1 << lg}", lambda n=1 << lg: (rnd(n, dt=FP32), rnd(n, dt=FP32)), torch.mul, most=16)
for rows, ff in ((1, 14336), (32, 14336), (2048, 14336)):
    rotate(f"ew/silu/bf16/{rows}x{ff}", lambda r=rows, c=ff: (rnd(r, c),), F.silu, hot=True, most=16)
    rotate(f"ew/mul/bf16/{rows}x{ff}", lambda r=rows, c=ff: (rnd(r, c), rnd(r, c)), torch.mul, hot=True, most=16)
for rows, ff in ((32, 7168), (4096, 7168)):  # the halves of a joined gate and up projection
    rotate(f"ew/silu_chunk/bf16/{rows}x{ff}", lambda r=rows, c=ff: (rnd(r, 2 * c).chunk(2, -1)[0],), F.silu, most=8)
    rotate(f"ew/mul_chunk/bf16/{rows}x{ff}", lambda r=rows, c=ff: (rnd(r, c), rnd(r, 2 * c).chunk(2, -1)[1]), torch.mul, most=8)

# --- rotary embedding ----------------------------------------------------------------------------------------------------------------
for b, t, h, d in ((1, 1, 32, 128), (32, 1, 32, 128), (32, 1, 8, 128), (1, 128, 12, 64), (1, 2048, 32, 128), (1, 2048, 8, 128)):
    shape = f"B{b}T{t}H{h}D{d}"

    def pairs(b=b, t=t, h=h, d=d):
        return rnd(b, t, h, d // 2, 2, dt=FP32), rnd(t, 1, d // 2)
    rotate(f"rope/mul_pairs/mixed/{shape}", pairs, lambda a, c: a[..., 0] * c, most=8)
    rotate(f"rope/sub/fp32/{shape}", lambda b=b, t=t, h=h, d=d: (rnd(b, t, h, d // 2, dt=FP32), rnd(b, t, h, d // 2, dt=FP32)), torch.sub, most=8)
    rotate(f"rope/stack/fp32/{shape}", lambda b=b, t=t, h=h, d=d: (rnd(b, t, h, d // 2, dt=FP32), rnd(b, t, h, d // 2, dt=FP32)),
           lambda x, y: torch.stack((x, y), -1), most=8)

    def half(b=b, t=t, h=h, d=d):
        return rnd(b, t, h, d).transpose(1, 2), rnd(t, d)
    rotate(f"rope/mul_table/bf16/{shape}", half, lambda x, c: x * c, most=8)
    rotate(f"rope/neg_half/bf16/{shape}", half, lambda x, c: -x[..., x.shape[-1] // 2:], most=8)
    rotate(f"rope/cat_halves/bf16/{shape}", lambda f=half: (lambda x: (x, -x[..., x.shape[-1] // 2:]))(f()[0]),
           lambda x, n: torch.cat((n, x[..., : x.shape[-1] // 2]), -1), most=8)
    rotate(f"rope/add/bf16/{shape}", lambda f=half: ((lambda x: (x * 1, x * 2))(f()[0])), torch.add, most=8)

# --- copies, caches, lookups -----------------------------------------------------------------------------------------------------------
for b, t, h, d in ((8, 1024, 12, 64), (1, 128, 12, 64), (32, 512, 12, 64), (64, 197, 12, 64), (1, 2048, 32, 128)):
    rotate(f"copy/bhtd_to_bthd/bf16/B{b}T{t}H{h}D{d}", lambda b=b, t=t, h=h, d=d: (rnd(b, h, t, d),), lambda y: y.transpose(1, 2).contiguous(), hot=True, most=8)
    rotate(f"copy/bthd_to_bhtd/bf16/B{b}T{t}H{h}D{d}", lambda b=b, t=t, h=h, d=d: (rnd(b, t, h, d),), lambda y: y.transpose(1, 2).contiguous(), most=8)
for b, h, s, d in ((1, 8, 1024, 128), (32, 8, 1024, 128), (8, 8, 4096, 128), (1, 12, 1024, 64)):
    def cache(b=b, h=h, s=s, d=d):
        return rnd(b, h, s, d), torch.tensor([s - 1], device=DEV), rnd(b, h, 1, d)
    rotate(f"cache/index_put/bf16/B{b}H{h}S{s}D{d}", cache, lambda c, p, k: c.__setitem__((slice(None), slice(None), p), k), most=4)
    rotate(f"cache/index_copy/bf16/B{b}H{h}S{s}D{d}", cache, lambda c, p, k: c.index_copy_(2, p, k), most=4)
for vocab, d, counts in ((50304, 768, (1, 8, 128, 512, 8192)), (128256, 4096, (8, 32, 128)), (30522, 768, (128, 16384)), (2, 768, (128, 16384))):
    for n in counts:
        rotate(f"embedding/bf16/{n}x{d}of{vocab}", lambda v=vocab, d=d, n=n: (torch.randint(0, v, (n,), device=DEV), rnd(v, d)), F.embedding, most=3)
rotate("cat/bf16/cls64x197x768", lambda: (rnd(64, 1, 768), rnd(64, 768, 196).transpose(1, 2)), lambda c, x: torch.cat((c, x), 1), most=6)
rotate("ew/add_position/bf16/64x197x768", lambda: (rnd(64, 197, 768), rnd(1, 197, 768)), torch.add, most=6)
rotate("arange/int64/1024", lambda: (torch.zeros(1, device=DEV),), lambda x: torch.arange(1024, device=DEV))

# --- routing ---------------------------------------------------------------------------------------------------------------------------------
for n in (16, 256, 2048, 16384):
    def chosen(n=n):
        return (torch.randint(0, 8, (n * 2,), device=DEV),)
    rotate(f"moe/softmax/fp32/{n}x8", lambda n=n: (rnd(n, 8, dt=FP32),), lambda x: F.softmax(x, -1))
    rotate(f"moe/topk2/fp32/{n}x8", lambda n=n: (rnd(n, 8, dt=FP32),), lambda x: torch.topk(x, 2, dim=-1))
    rotate(f"moe/sum_last/fp32/{n}x2", lambda n=n: (rnd(n, 2, dt=FP32),), lambda x: x.sum(-1, keepdim=True))
    rotate(f"moe/div_rows/fp32/{n}x2", lambda n=n: (rnd(n, 2, dt=FP32), rnd(n, 1, dt=FP32)), torch.div)
    rotate(f"moe/argsort/int64/{2 * n}", chosen, torch.argsort)
    rotate(f"moe/floor_divide/int64/{2 * n}", chosen, lambda x: x // 2)
    rotate(f"moe/histc8/int32/{2 * n}", lambda f=chosen: (f()[0].int(),), lambda x: torch.histc(x, bins=8, min=0, max=7))
    rotate(f"moe/one_hot/int64/{n}x2", lambda n=n: (torch.randint(0, 8, (n, 2), device=DEV),), lambda x: F.one_hot(x, 8))
    rotate(f"moe/index_rows/bf16/{2 * n}x2048", lambda n=n: (rnd(n, 2048), torch.randint(0, n, (2 * n,), device=DEV)), lambda x, i: x[i], most=8)
    rotate(f"moe/index_select/bf16/{2 * n}x2048", lambda n=n: (rnd(n, 2048), torch.randint(0, n, (2 * n,), device=DEV)), lambda x, i: x.index_select(0, i), most=8)
    rotate(f"moe/index_add/bf16/{2 * n}x2048", lambda n=n: (rnd(n, 2048), torch.randint(0, n, (2 * n,), device=DEV), rnd(2 * n, 2048)),
           lambda x, i, y: x.index_add_(0, i, y), most=8)
    rotate(f"moe/index_add_distinct/bf16/{n // 4}x2048", lambda n=n: (rnd(n, 2048), torch.randperm(n, device=DEV)[: n // 4], rnd(n // 4, 2048)),
           lambda x, i, y: x.index_add_(0, i, y), most=8)
    rotate(f"moe/where/int64/{n}x2", lambda n=n: (torch.randint(0, 8, (2, n), device=DEV) == 0,), torch.where)
    rotate(f"moe/mul_rows/bf16/{2 * n}x2048", lambda n=n: (rnd(2 * n, 2048), rnd(2 * n, 1)), torch.mul, most=8)
rotate("moe/cumsum/int32/8", lambda: (torch.ones(8, device=DEV, dtype=torch.int32),), lambda x: torch.cumsum(x, 0, dtype=torch.int32))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--repetitions", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    begin, good, bad = time.time(), 0, 0
    cases = [c for c in CASES if re.search(args.only, c[0])]
    with open(f"{args.out}/kernels.jsonl", "a") as out:
        out.write(json.dumps({"machine": timing.machine()}) + "\n")
        for i in range(0, len(cases), 40):
            if time.time() - begin > args.seconds:
                print(f"left out, no time: {len(cases) - i} cases from {cases[i][0]}", flush=True)
                break
            for name, result in timing.profile_cases(cases[i:i + 40], args.repetitions):
                out.write(json.dumps({"case": name, **result}) + "\n")
                good, bad = good + ("error" not in result), bad + ("error" in result)
                if "error" in result:
                    print("ERR", name, result["error"], flush=True)
            out.flush()
            print(f"{time.time() - begin:5.0f} s {i + 40}/{len(cases)}", flush=True)
    print(f"{good} cases, {bad} errors", flush=True)


if __name__ == "__main__":
    main()
