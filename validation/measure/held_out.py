# SPDX-License-Identifier: Apache-2.0
"""Measures networks, sizes and kernels that no price was ever fitted to: what a prediction of something new is worth.

usage: held_out.py steps|compiled|training|kernels|kernels-again OUT [options of steps.py, compiled.py, training_steps.py, kernels.py]

The rows here take the place of those programs' own. Sizes of kernels are drawn from a generator with a fixed seed, before anything
was predicted or measured. held_out_tables.py makes the tables. The first row of each kind is an old one: it sets the host's speed.
"""
import random
import sys

SEEDS = {"kernels": 20261201, "kernels-again": 20261202}
MEDIUM = {"layers": 24, "d_model": 1024, "heads": 16}
LARGE = {"layers": 36, "d_model": 1280, "heads": 20}
XL = {"layers": 48, "d_model": 1600, "heads": 25}
BERT_LARGE = {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096}
VIT_LARGE = {"layers": 24, "d_model": 1024, "heads": 16}
LLAMA_3B = {"layers": 28, "d_model": 3072, "heads": 24, "kv_heads": 8, "d_ff": 8192, "vocab": 128256}
LLAMA_13B_8 = {"layers": 8, "d_model": 5120, "heads": 40, "kv_heads": 40, "d_ff": 13824, "vocab": 32000}  # 8 of 40 layers
LLAMA_1B = {"layers": 16, "d_model": 2048, "heads": 32, "kv_heads": 8, "d_ff": 8192, "vocab": 128256}
LIBRARY = {"norm": "library", "rope": "library"}
LIBRARY_DECODE = LIBRARY | {"cache_write": "index_copy"}


def gpt(N, b, t, p=None, flash=True, cache=0):
    p = p or {}
    make = lambda: N.Gpt(p.get("layers", 12), p.get("d_model", 768), p.get("heads", 12), flash=flash, cache=cache, batch=b)
    if cache:
        import torch
        return lambda: (make(), (N.tokens(b, 1, 50304), torch.tensor([cache - 1])))
    return lambda: (make(), (N.tokens(b, t, 50304),))


def llama(N, b, t, p, library=False, cache=0):
    import torch
    sizes = [p[k] for k in ("layers", "d_model", "heads", "kv_heads", "d_ff", "vocab")]
    if cache:
        return lambda: (N.Llama(*sizes, cache, b, library), (N.tokens(b, 1, p["vocab"]), torch.tensor([cache - 1])))
    return lambda: (N.Llama(*sizes, library=library), (N.tokens(b, t, p["vocab"]),))


def encoder(N, b, t, p=None):
    import torch
    p = p or {}
    return lambda: (N.Encoder(p.get("layers", 12), p.get("d_model", 768), p.get("heads", 12), p.get("d_ff", 3072)),
                    (N.tokens(b, t, 30522), torch.zeros(b, t, dtype=torch.long)))


def vit(N, b, p=None):
    import torch
    p = p or {}
    return lambda: (N.Vit(layers=p.get("layers", 12), d=p.get("d_model", 768), heads=p.get("heads", 12)), (torch.randn(b, 3, 224, 224),))


def resnet(b, nhwc=True):
    import torch
    form = torch.channels_last if nhwc else torch.contiguous_format

    def build():
        import torchvision
        return (torchvision.models.resnet50().to(memory_format=form), (torch.randn(b, 3, 224, 224).contiguous(memory_format=form),))
    return build


def rows_of(N, kind):
    """(name, network, parameters, batch, sequence, step, build) of networks in use; sequence is the cache's length in decode."""
    import torch
    L160 = {"layers": 16, "d_model": 768, "heads": 12, "kv_heads": 12, "d_ff": 2048, "vocab": 32000}
    return [
        ("gpt2_large_B4_T512", "gpt2", LARGE, 4, 512, "inference", gpt(N, 4, 512, LARGE)),
        ("gpt2_xl_B1_T256", "gpt2", XL, 1, 256, "inference", gpt(N, 1, 256, XL)),
        ("gpt2_B3_T700", "gpt2", {}, 3, 700, "inference", gpt(N, 3, 700)),
        ("gpt2_B32_T512", "gpt2", {}, 32, 512, "inference", gpt(N, 32, 512)),
        ("gpt2_medium_decode_B16_S512", "gpt2", MEDIUM, 16, 512, "decode", gpt(N, 16, 1, MEDIUM, cache=512)),
        ("gpt2_unfused_B4_T512", "gpt2", {"attention": "unfused"}, 4, 512, "inference", gpt(N, 4, 512, flash=False)),
        ("llama_3b_B1_T1024", "llama", LLAMA_3B, 1, 1024, "inference", llama(N, 1, 1024, LLAMA_3B)),
        ("llama_3b_decode_B4_S2048", "llama", LLAMA_3B, 4, 2048, "decode", llama(N, 4, 1, LLAMA_3B, cache=2048)),
        ("llama_3b_lib_decode_B16_S512", "llama", LLAMA_3B | LIBRARY_DECODE, 16, 512, "decode", llama(N, 16, 1, LLAMA_3B, True, 512)),
        ("llama_13b_L8_B2_T512", "llama", LLAMA_13B_8, 2, 512, "inference", llama(N, 2, 512, LLAMA_13B_8)),
        ("llama_13b_L8_lib_B1_T4096", "llama", LLAMA_13B_8 | LIBRARY, 1, 4096, "inference", llama(N, 1, 4096, LLAMA_13B_8, True)),
        ("llama_1b_decode_B64_S2048", "llama", LLAMA_1B, 64, 2048, "decode", llama(N, 64, 1, LLAMA_1B, cache=2048)),
        ("llama_1b_lib_B1_T300", "llama", LLAMA_1B | LIBRARY, 1, 300, "inference", llama(N, 1, 300, LLAMA_1B, True)),
        ("llama_160m_B8_T256", "llama_160m", {}, 8, 256, "inference", llama(N, 8, 256, L160)),
        ("encoder_B16_T384", "encoder", {}, 16, 384, "inference", encoder(N, 16, 384)),
        ("encoder_large_B4_T256", "encoder", BERT_LARGE, 4, 256, "inference", encoder(N, 4, 256, BERT_LARGE)),
        ("vit_B32", "vit", {}, 32, 197, "inference", vit(N, 32)),
        ("vit_large_B4", "vit", VIT_LARGE, 4, 197, "inference", vit(N, 4, VIT_LARGE)),
        ("resnet50_B32", "resnet50", {}, 32, 1, "inference", resnet(32)),
        ("resnet50_B128_nchw", "resnet50", {"channels_last": False}, 128, 1, "inference", resnet(128, False)),
        ("moe_grouped_N1024", "moe_layers", {}, 1, 1024, "inference", lambda: (N.MoeStack(N.GroupedExperts), (torch.randn(1024, 2048),))),
        ("moe_grouped_N64", "moe_layers", {}, 1, 64, "inference", lambda: (N.MoeStack(N.GroupedExperts), (torch.randn(64, 2048),))),
        ("seed_decoder_B2_T512", "seed_decoder", {}, 2, 512, "inference", lambda: (N.SeedDecoder(), (torch.randn(2, 512, 2048),))),
        ("mlp_N2048", "seed_mlp", {}, 1, 2048, "inference", lambda: (N.Mlp(), (torch.randn(2048, 4096),))),
        ("hand_ln_gelu_N4096", "layer_norm_gelu", {}, 1, 4096, "inference", lambda: (N.HandLnGelu(), (torch.randn(4096, 4096),))),
        ("ln_gelu_N4096", "layer_norm_gelu", {"form": "built_in"}, 1, 4096, "inference", lambda: (N.LnGelu(), (torch.randn(4096, 4096),))),
    ]


def steps():
    import networks as N
    import steps as program
    first = next(r for r in N.ROWS if r.name == "gpt2_B1_T128")
    N.ROWS[:] = [first]
    first.sets = ["workload.network=gpt2", "workload.batch=1", "workload.sequence=128"]
    for name, network, parameters, batch, sequence, step, build in rows_of(N, "steps"):
        decode = step == "decode"
        N.row(name, network, batch, 1 if decode else sequence, build, context=sequence if decode else 0)
        N.ROWS[-1].sets = [f"workload.network={network}", f"workload.batch={batch}", f"workload.sequence={sequence}",
                           *(["workload.step=decode"] if decode else []), *settings(parameters)]
    program.main()


def settings(parameters):
    return [f"workload.parameters.{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in parameters.items()]


def compiled():
    import networks as N
    import compiled as program
    import compiled_networks as C
    first = next(r for r in C.STEPS if r.name == "encoder_B1_T128")
    first.modes = ("default",)
    C.STEPS[:] = [first]
    few = {"layers": 8}
    rows = {r[0]: r for r in rows_of(N, "compiled")}

    def add(name, network, parameters, batch, sequence, step, build, modes=("default", "reduce-overhead")):
        C.steps(name, build, network, parameters, batch, sequence, step=step, modes=modes)
    for name in ("gpt2_B3_T700", "llama_160m_B8_T256", "encoder_B16_T384", "vit_B32", "seed_decoder_B2_T512", "mlp_N2048",
                 "hand_ln_gelu_N4096", "ln_gelu_N4096", "moe_grouped_N1024"):
        add(*rows[name])
    p = LLAMA_3B | few
    add("llama_3b_L8_decode_B4_S2048", "llama", p, 4, 2048, "decode", llama(N, 4, 1, p, cache=2048))
    p = LARGE | few
    add("gpt2_large_L8_B4_T512", "gpt2", p, 4, 512, "inference", gpt(N, 4, 512, p), modes=("default",))
    add(*rows["resnet50_B32"], modes=("default",))
    program.main()


def training():
    import networks as N
    import training_networks as T
    import training_steps as program
    first = next(r for r in T.ROWS if r.name == "llama_160m_inference_B1_T128")
    first.modes = ("eager",)
    T.ROWS[:] = [first]
    T.gpt("gpt2_medium", 4, 512, 24, 1024, 16, parameters=MEDIUM, gb=14)
    T.gpt("gpt2", 1, 1024, gb=5)
    T.gpt("gpt2", 32, 512, gb=20)
    T.gpt("gpt2_pure_sgd", 4, 256, precision="pure", optimizer="sgd_momentum", modes=("eager",), gb=5)
    T.llama("llama_160m", 8, 512, gb=14)
    T.llama("llama_160m_lib", 2, 256, library=True, modes=("eager", "reduce-overhead"), gb=6)
    T.encoder(8, 256, gb=8)
    T.vit(32, gb=12)
    T.resnet(32, gb=8)
    T.moe(1024, precision="pure", modes=("eager",), gb=12)
    program.main()


def kernels(seed):
    import torch
    import torch.nn.functional as F
    import kernels as K
    K.CASES.clear()
    K.SEEN.clear()
    r = random.Random(seed)
    rnd, rotate, BF16, FP32 = K.rnd, K.rotate, torch.bfloat16, torch.float32

    def log(low, high, multiple=1):
        import math
        return max(multiple, round(math.exp(r.uniform(math.log(low), math.log(high))) / multiple) * multiple)

    for i in range(70):
        m, n, k = log(1, 16384), log(256, 32768, 64), log(256, 16384, 64)
        while m * n * k > 1 << 41 or n * k > 1 << 28:
            m, n, k = log(1, 16384), log(256, 32768, 64), log(256, 16384, 64)
        K.gemm(m, n, k, bias=i % 3 == 2)
    for _ in range(12):
        b, m, n, k = log(2, 128), log(64, 2048, 8), log(64, 2048, 8), log(64, 1024, 8)
        rotate(f"bmm/bf16/{b}x{m}x{n}x{k}", lambda b=b, m=m, n=n, k=k: (rnd(b, m, k), rnd(b, k, n)), torch.bmm, most=6)
    for _ in range(6):
        t, n, k = log(64, 8192, 8), log(512, 14336, 128), log(512, 7168, 128)
        rotate(f"grouped_mm/bf16/E8x{t}x{n}x{k}",
               lambda t=t, n=n, k=k: (rnd(t, k), rnd(8, n, k).transpose(-2, -1),
                                      torch.arange(t // 8, t + 1, t // 8, device="cuda", dtype=torch.int32)),
               lambda x, w, e: torch._grouped_mm(x, w, offs=e), most=3)
    for _ in range(24):
        n, h = log(1, 64), r.choice((7, 14, 28, 56))
        c, k = log(32, 1024, 32), log(32, 1024, 32)
        while c * h > 16384 or k * h > 32768:
            c, k = log(32, 1024, 32), log(32, 1024, 32)
        size, stride = r.choice(((1, 1), (1, 1), (3, 1), (3, 2), (1, 2)))
        K.conv("nhwc", BF16, n, c, h, k, size, stride)
    for _ in range(26):
        b, h, t, d = log(1, 32), r.choice((8, 12, 16, 20, 32)), log(64, 4096), r.choice((64, 64, 80, 128))
        while b * h * t * t > 1 << 33:
            b, t = log(1, 32), log(64, 4096)
        causal, layout = r.random() < 0.6, r.choice(("bhtd", "bthd"))
        rotate(f"sdpa_fwd/bf16/B{b}H{h}T{t}D{d}/{'causal' if causal else 'full'}{'' if layout == 'bhtd' else '/bthd'}",
               lambda b=b, h=h, t=t, d=d, l=layout: tuple(K.heads(b, h, t, d, l) for _ in range(3)),
               lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c), most=4)
    for _ in range(8):
        b, h, g, t = log(1, 8), r.choice((16, 24, 32)), r.choice((2, 4, 8)), log(100, 4096)
        kv = h // g
        rotate(f"sdpa_gqa_fwd/bf16/B{b}H{h}Hkv{kv}T{t}D128/causal",
               lambda b=b, h=h, k=kv, t=t: (K.heads(b, h, t, 128, "bthd"), K.heads(b, k, t, 128, "bthd"), K.heads(b, k, t, 128, "bthd")),
               lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), most=4)
    for _ in range(14):
        b, h, g, t, d, masked = log(1, 64), r.choice((12, 16, 24, 32)), r.choice((1, 4)), log(128, 8192), r.choice((64, 128)), r.random() < 0.6
        while b * h * t * d > 1 << 30:
            b, t = log(1, 64), log(128, 8192)
        rotate(f"sdpa_decode{'_mask' if masked else ''}/bf16/B{b}H{h}Hkv{h // g}T{t}D{d}",
               lambda b=b, h=h, k=h // g, t=t, d=d, m=masked: (rnd(b, h, 1, d), rnd(b, k, t, d), rnd(b, k, t, d),
                                                               torch.ones(1, 1, 1, t, device="cuda", dtype=torch.bool) if m else None),
               lambda q, k, v, m, g=g != 1: F.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=g), most=4)
    for _ in range(14):
        rows, cols = log(1, 65536), log(256, 16384, 8)
        while rows * cols > 1 << 28:
            rows = log(1, 65536)
        hot = rows * cols < 1 << 23
        rotate(f"red/layer_norm/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(c), rnd(c)),
               lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), hot=hot, most=16)
        rotate(f"red/rms_norm/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(c)),
               lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-5), hot=hot, most=16)
    for _ in range(14):
        rows, cols = log(16, 131072), log(32, 8192)
        while rows * cols > 1 << 28:
            rows = log(16, 131072)
        rotate(f"red/softmax/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c),), lambda a: a.softmax(-1), most=8)
        rotate(f"red/mean_last/fp32/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c, dt=FP32),), lambda x: x.mean(-1, keepdim=True), most=8)
    for _ in range(4):
        rows, cols = log(1, 64), log(10000, 200000)
        rotate(f"red/argmax/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c),), lambda x: x.argmax(-1), most=8)
    for op in ("gelu_exact", "gelu_tanh", "silu", "relu", "mul_scalar", "tanh") * 4:
        n = log(1024, 1 << 27, 8)
        rotate(f"ew/{op}/bf16/{n}", lambda n=n: (rnd(n),), K.UNARY[op], hot=n < 1 << 25, most=16)
    for _ in range(10):
        n, dt = log(1024, 1 << 26, 8), r.choice((BF16, FP32))
        rotate(f"ew/{'mul' if dt == BF16 else 'add'}/{K.NAMES[dt]}/{n}", lambda n=n, dt=dt: (rnd(n, dt=dt), rnd(n, dt=dt)),
               torch.mul if dt == BF16 else torch.add, hot=n < 1 << 24, most=16)
    for _ in range(8):
        rows, cols = log(1, 32768), log(256, 16384, 8)
        rotate(f"ew/mul_cols/bf16/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c), rnd(c)), lambda x, y: x * y, most=8)
        rotate(f"ew/mul_rows/fp32/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c, dt=FP32), rnd(r, 1, dt=FP32)), lambda x, y: x * y, most=8)
        rotate(f"ew/cast_bf16_fp32/mixed/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c),), lambda x: x.float(), most=8)
        rotate(f"ew/cast_fp32_bf16/mixed/{rows}x{cols}", lambda r=rows, c=cols: (rnd(r, c, dt=FP32),), lambda x: x.to(BF16), most=8)
    for _ in range(10):
        b, t, h, d = log(1, 32), log(16, 2048), r.choice((8, 12, 16, 32)), r.choice((64, 128))
        rotate(f"copy/bhtd_to_bthd/bf16/B{b}T{t}H{h}D{d}", lambda b=b, t=t, h=h, d=d: (rnd(b, h, t, d),),
               lambda y: y.transpose(1, 2).contiguous(), most=8)
    for _ in range(8):
        v, d, n = log(1000, 200000), log(256, 8192, 64), log(1, 32768)
        rotate(f"embedding/bf16/{n}x{d}of{v}", lambda v=v, d=d, n=n: (torch.randint(0, v, (n,), device="cuda"), rnd(v, d)), F.embedding, most=3)
        rotate(f"moe/index_rows/bf16/{n}x{d}", lambda d=d, n=n: (rnd(max(n // 2, 1), d), torch.randint(0, max(n // 2, 1), (n,), device="cuda")),
               lambda x, i: x[i], most=8)
    for _ in range(8):
        n, c, h = log(1, 64), log(32, 1024, 32), r.choice((7, 14, 28, 56))
        rotate(f"batch_norm_nhwc/bf16/N{n}C{c}H{h}", lambda n=n, c=c, h=h: (K.image(n, c, h), *K.vectors(c)),
               lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, False), most=8)
        rotate(f"ew/add_inplace/bf16/N{n}C{c}H{h}", lambda n=n, c=c, h=h: (K.image(n, c, h), K.image(n, c, h)), lambda x, y: x.add_(y), most=8)
    K.main()


if __name__ == "__main__":
    what = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if what == "compiled":
        sys.argv.insert(1, "steps")
    if what in SEEDS:
        kernels(SEEDS[what])
    elif what in ("steps", "compiled", "training"):
        globals()[what]()
    else:
        sys.exit(__doc__)
