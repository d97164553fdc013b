# SPDX-License-Identifier: Apache-2.0
"""What compiled.py compiles: networks.py's networks with few layers, pieces that show one rule of fusion each, and whole networks.

A row's `network`, `parameters`, `batch`, `sequence`, `dtype` and `step` are those of a scenario (configs/networks); `network` is
empty for a piece that no file there describes: its source is in the row's `code`.
"""
import inspect
import textwrap

import torch
import torch.nn as nn
import torch.nn.functional as F

import networks as N

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
LIBRARY = {"norm": "library", "rope": "library"}


class Row:
    def __init__(self, name, build, network="", parameters=None, batch=1, sequence=1, dtype=BF16, step="inference", context=0, code="",
                 train=False, autocast=False, modes=("default", "reduce-overhead"), note=""):
        self.name, self.build, self.network, self.parameters, self.batch, self.sequence = name, build, network, parameters or {}, batch, sequence
        self.dtype, self.step, self.code, self.train, self.autocast, self.modes, self.note = dtype, step, code, train, autocast, modes, note

    def describe(self):
        return {"row": self.name, "network": self.network, "parameters": self.parameters, "batch": self.batch, "sequence": self.sequence,
                "dtype": {BF16: "bf16", FP16: "fp16", FP32: "fp32"}[self.dtype], "step": self.step, "autocast": self.autocast,
                "note": self.note, "code": self.code}


FUSION, STEPS = [], []


def fusion(*args, **kw):
    FUSION.append(Row(*args, **kw))


def steps(*args, **kw):
    STEPS.append(Row(*args, **kw))


# --- networks that networks.py lacks ---------------------------------------------------------------------------------------
class PrefillBlock(N.LlamaBlock):
    """The whole sequence at once, keys and values copied into the cache."""

    def forward(self, x, cos, sin, pos=None, mask=None):
        b, t, c = x.shape
        y = self.n1(x)
        q = self.wq(y).view(b, t, self.heads, self.hd)
        k = self.wk(y).view(b, t, self.kv_heads, self.hd)
        v = self.wv(y).view(b, t, self.kv_heads, self.hd)
        if self.library:
            q, k = N.half_rope(q.transpose(1, 2), cos, sin), N.half_rope(k.transpose(1, 2), cos, sin)
        else:
            q, k = N.hand_rope(q, cos, sin).transpose(1, 2), N.hand_rope(k, cos, sin).transpose(1, 2)
        v = v.transpose(1, 2)
        self.kc.copy_(k)
        self.vc.copy_(v)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.wo(o.transpose(1, 2).reshape(b, t, c))
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


def prefill_llama(layers, d, heads, kv_heads, ff, vocab, batch, length, library=False):
    model = N.Llama(layers, d, heads, kv_heads, ff, vocab, library=library)
    model.blocks = nn.ModuleList(PrefillBlock(d, heads, kv_heads, ff, length, batch, library) for _ in range(layers))
    return model


class MixtralBlock(N.LlamaBlock):
    """Llama's attention, grouped experts in place of the MLP."""

    def __init__(self, d, heads, kv_heads, ff, experts, top_k):
        super().__init__(d, heads, kv_heads, 8)
        del self.w1, self.w2, self.w3
        self.moe = N.GroupedExperts(d, ff, experts, top_k)

    def forward(self, x, cos, sin, pos=None, mask=None):
        b, t, c = x.shape
        y = self.n1(x)
        q = self.wq(y).view(b, t, self.heads, self.hd)
        k = self.wk(y).view(b, t, self.kv_heads, self.hd)
        v = self.wv(y).view(b, t, self.kv_heads, self.hd)
        q, k = N.hand_rope(q, cos, sin).transpose(1, 2), N.hand_rope(k, cos, sin).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.wo(o.transpose(1, 2).reshape(b, t, c))
        return x + self.moe(self.n2(x).reshape(b * t, c)).view(b, t, c)


def mixtral(layers, d, heads, kv_heads, ff, vocab):
    model = N.Llama(layers, d, heads, kv_heads, 8, vocab)
    model.blocks = nn.ModuleList(MixtralBlock(d, heads, kv_heads, ff, 8, 2) for _ in range(layers))
    return model


MIXTRAL = {"d_model": 1024, "heads": 16, "kv_heads": 8, "d_ff": 3584}


class Sequence(nn.Module):
    """The cosines of cos_chain."""

    def forward(self, x):
        for _ in range(8):
            x = x.cos()
        return x


class FmaRelu(nn.Module):
    def forward(self, a, b, c):
        return torch.relu(a * b + c)


def small_resnet(b, layout, layers=(1, 1, 1, 1)):
    import torchvision
    model = torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, list(layers))
    x = torch.randn(b, 3, 224, 224)
    if layout == "nhwc":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    return model, (x,)


class Loss(nn.Module):
    """A network and the mean cross entropy of its logits."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, ids, targets):
        y = self.inner(ids)
        return F.cross_entropy(y.view(-1, y.shape[-1]), targets.view(-1))


# --- networks with few layers ------------------------------------------------------------------------------------------------
def network_rows():
    two = {"layers": 2}
    for b, t in ((8, 1024), (1, 128)):
        fusion(f"gpt2_L2_B{b}_T{t}", lambda b=b, t=t: (N.Gpt(2), (N.tokens(b, t, 50304),)), "gpt2", two, b, t)
    for library in (False, True):
        tail, more = ("_lib", LIBRARY) if library else ("", {})
        for b, t in ((1, 128), (4, 1024)):
            fusion(f"llama_160m{tail}_L2_B{b}_T{t}", lambda b=b, t=t, l=library: (N.Llama(2, 768, 12, 12, 2048, 32000, library=l), (N.tokens(b, t, 32000),)),
                   "llama_160m", two | more, b, t)
        fusion(f"llama8b{tail}_L2_B1_T2048", lambda l=library: (N.Llama(2, 4096, 32, 8, 14336, 128256, library=l), (N.tokens(1, 2048, 128256),)),
               "llama3_8b", two | more, 1, 2048)
        cache = {"cache_write": "index_copy"} if library else {}
        for b in (1, 32):
            fusion(f"llama8b{tail}_L2_decode_B{b}_S1024", lambda b=b, l=library: (
                N.Llama(2, 4096, 32, 8, 14336, 128256, 1024, b, l), (N.tokens(b, 1, 128256), torch.tensor([1023]))),
                "llama3_8b", two | more | cache, b, 1024, step="decode")
        fusion(f"llama8b{tail}_L2_prefill_B1_T512", lambda l=library: (
            prefill_llama(2, 4096, 32, 8, 14336, 128256, 1, 512, l), (N.tokens(1, 512, 128256),)), "llama3_8b", two | more, 1, 512, step="prefill")
    for b, t in ((32, 512), (1, 128)):
        fusion(f"encoder_L2_B{b}_T{t}", lambda b=b, t=t: (N.Encoder(2), (N.tokens(b, t, 30522), torch.zeros(b, t, dtype=torch.long))), "encoder", two, b, t)
    for b in (64, 1):
        fusion(f"vit_L2_B{b}", lambda b=b: (N.Vit(layers=2), (torch.randn(b, 3, 224, 224),)), "vit", two, b, 197)
    for b, t in ((4, 1024), (1, 16)):
        fusion(f"seed_decoder_B{b}_T{t}", lambda b=b, t=t: (N.SeedDecoder(), (torch.randn(b, t, 2048),)), "seed_decoder", {}, b, t)
    for b, t in ((8, 1024), (1, 128)):
        fusion(f"gpt2_unfused_L2_B{b}_T{t}", lambda b=b, t=t: (N.Gpt(2, flash=False), (N.tokens(b, t, 50304),)), "gpt2",
               two | {"attention": "unfused"}, b, t)
    for b in (1, 8):
        fusion(f"gpt2_L2_decode_B{b}_S1024", lambda b=b: (N.Gpt(2, cache=1024, batch=b), (N.tokens(b, 1, 50304), torch.tensor([1023]))),
               "gpt2", two, b, 1024, step="decode")
    one = {f"layers_{i}": 1 for i in range(1, 5)}
    for b, layout in ((64, "nhwc"), (64, "nchw"), (1, "nhwc")):
        fusion(f"resnet_1111_{layout}_B{b}", lambda b=b, l=layout: small_resnet(b, l), "resnet50", one | {"channels_last": layout == "nhwc"}, b, 1)
    for n in (2048, 16):
        fusion(f"moe_grouped_L2_N{n}", lambda n=n: (N.MoeStack(N.GroupedExperts, 2), (torch.randn(n, 2048),)), "moe_layers", two, 1, n)
    fusion("mixtral_L2_B1_T256", lambda: (mixtral(2, 1024, 16, 8, 3584, 32000), (N.tokens(1, 256, 32000),)), "mixtral", two | MIXTRAL, 1, 256)
    for n in (16384, 64):
        fusion(f"mlp_N{n}", lambda n=n: (N.Mlp(), (torch.randn(n, 4096),)), "seed_mlp", {}, 1, n)
    for width in (256, 768, 1024, 2048, 4096):
        fusion(f"hand_ln_gelu_N16384_D{width}", lambda w=width: (N.HandLnGelu(w), (torch.randn(16384, w),)), "layer_norm_gelu", {"features": width}, 1, 16384)
        fusion(f"ln_gelu_N16384_D{width}", lambda w=width: (N.LnGelu(w), (torch.randn(16384, w),)), "layer_norm_gelu",
               {"features": width, "form": "built_in"}, 1, 16384)
    fusion("ln_gelu_N256_D4096", lambda: (N.LnGelu(), (torch.randn(256, 4096),)), "layer_norm_gelu", {"form": "built_in"}, 1, 256)
    fusion("hand_ln_gelu_N256_D4096", lambda: (N.HandLnGelu(), (torch.randn(256, 4096),)), "layer_norm_gelu", {}, 1, 256)
    fusion("fma_relu_4096", lambda: (FmaRelu(), tuple(torch.randn(4096, 4096) for _ in range(3))), "fma_relu", {}, dtype=FP16)
    fusion("cos_chain_8", lambda: (Sequence(), (torch.randn(1 << 26),)), "cos_chain", {"length": 8}, dtype=FP32)


# --- pieces: each shows one rule -----------------------------------------------------------------------------------------------
def rms(x, w):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * w


class Piece(nn.Module):
    def __init__(self, function, *parameters):
        super().__init__()
        self.function, self.p = function, nn.ParameterList(parameters)

    def forward(self, *inputs):
        return self.function(*inputs, *[p for p in self.p])


def piece(name, function, inputs, parameters=(), dtype=BF16, note="", **kw):
    """inputs and parameters: shapes; an int64 input is (high, shape)."""
    def make(shape):
        return torch.randint(0, shape[0], shape[1]) if len(shape) == 2 and isinstance(shape[1], tuple) else torch.randn(*shape)

    def build():
        return Piece(function, *(nn.Parameter(make(s) * 0.05) for s in parameters)), tuple(make(s) for s in inputs)
    code = textwrap.dedent(inspect.getsource(function)) if function.__name__ != "<lambda>" else ""
    fusion("piece/" + name, build, dtype=dtype, note=note or f"inputs {list(inputs)} parameters {list(parameters)}", code=code, **kw)


def add_rms_swiglu(x, r, w, w1, w3):
    x = x + r
    y = rms(x, w)
    return x, F.silu(F.linear(y, w1)) * F.linear(y, w3)


def add_layer_norm(x, r, w, b):
    x = x + r
    return x, F.layer_norm(x, (x.shape[-1],), w, b)


def layer_norm_two_uses(x, w, b, m):
    y = F.layer_norm(x, (x.shape[-1],), w, b)
    return F.gelu(y), F.linear(y, m)


def softmax(x):
    return x.softmax(-1)


def scaled_masked_softmax(x):
    mask = torch.ones(x.shape[-2], x.shape[-1], dtype=torch.bool, device=x.device).tril()
    return (x * 0.125).masked_fill(~mask, float("-inf")).softmax(-1)


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.float(), targets)


def bias_gelu_dropout(x, b):
    return F.dropout(F.gelu(x + b), 0.1, False)


def bias_gelu_dropout_train(x, b):
    return F.dropout(F.gelu(x + b), 0.1, True)


def linear_gelu_residual(x, w, b):
    return x + F.gelu(F.linear(x, w, b), approximate="tanh")


def linear_relu_linear(x, w1, w2):
    return F.linear(F.relu(F.linear(x, w1)), w2)


def convnext(x, dw, db, w, b, w1, b1, w2, b2, gamma):
    y = F.conv2d(x, dw, db, padding=3, groups=x.shape[1]).permute(0, 2, 3, 1)
    y = F.layer_norm(y, (y.shape[-1],), w, b, 1e-6)
    y = F.linear(F.gelu(F.linear(y, w1, b1)), w2, b2)
    return x + (gamma * y).permute(0, 3, 1, 2)


def convnext_channels_last(x, *p):
    return convnext(x.contiguous(memory_format=torch.channels_last), *p)


def sum_all(x):
    return x.sum()


def sum_first(x):
    return x.sum(0)


def sum_last(x):
    return x.sum(-1)


def mean_of_squares(x):
    return (x.float() ** 2).mean()


def sum_both(x):
    return x.sum(0), x.sum(1)


def amax_and_sum(x):
    return x.amax(-1), x.sum(-1)


def relu_sum_first(x):
    y = F.relu(x)
    return y, y.sum(0)


def rope_cat_halves(q, cos, sin):
    return q * cos + torch.cat((-q[..., q.shape[-1] // 2:], q[..., : q.shape[-1] // 2]), -1) * sin


def rope_stack_pairs(q, cos, sin):
    a = q.float().reshape(*q.shape[:-1], -1, 2)
    return torch.stack((a[..., 0] * cos - a[..., 1] * sin, a[..., 1] * cos + a[..., 0] * sin), -1).flatten(-2).type_as(q)


def rope_two(q, k, cos, sin):
    return rope_cat_halves(q, cos, sin), rope_cat_halves(k, cos, sin)


def qk_norm_rope(x, cos, sin, w):
    q = rms(x, w).transpose(1, 2)
    return rope_cat_halves(q, cos, sin)


def embed_norm(ids, table, positions, w, b):
    x = F.embedding(ids, table) + positions[: ids.shape[1]]
    return x, F.layer_norm(x, (x.shape[-1],), w, b)


def top_k_routing(x, router):
    p = F.softmax(F.linear(x, router).float(), dim=-1)
    weight, chosen = torch.topk(p, 2, dim=-1)
    return (weight / weight.sum(-1, keepdim=True)).to(x.dtype), chosen


def sort_and_count(chosen):
    flat = chosen.reshape(-1)
    order = torch.argsort(flat)
    count = torch.histc(flat.to(torch.int32), bins=8, min=0, max=7)
    return order, order // 2, torch.cumsum(count, 0, dtype=torch.int32)


def cat_two(a, b):
    return torch.cat((a * 2, F.relu(b)), -1)


def cat_views(x):
    a, b, c = x.chunk(3, -1)
    return torch.cat((c, a, b), -1)


def stack_two(a, b):
    return torch.stack((a * 2, b + 1), -1)


def three_shapes(a, b, c):
    return F.relu(a), F.relu(b), F.relu(c)


def same_shape_apart(a, b, c):
    return F.relu(a), F.gelu(b), c + 1


def same_input(x):
    return F.relu(x), x.sigmoid(), x.float()


def outer(a, b):
    return F.gelu(a[:, None] * b[None, :])


def transpose_add(x, y):
    return x.t() + y


def transpose_out(x):
    return F.relu(x.transpose(1, 2)).contiguous()


def heads_copy(x):
    b, t, c = x.shape
    q, k, v = (u.view(b, t, 12, c // 36).transpose(1, 2).contiguous() for u in x.split(c // 3, 2))
    return q, k, v


def group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b))


def batch_norm_train_relu(x, w, b):
    return F.relu(F.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w, b, True))


def max_pool(x):
    return F.max_pool2d(F.relu(x), 3, 2, 1)


def average_pool(x):
    return F.adaptive_avg_pool2d(x, 1).flatten(1)


def upsample_cat_conv(x, y, w):
    return F.conv2d(torch.cat((F.interpolate(x, scale_factor=2.0), y), 1), w, padding=1)


def conv_bias_relu(x, w, b):
    return F.relu(F.conv2d(x, w, b, padding=1))


def gather_rows(x, index):
    return x[index] * 2


def index_put(cache, k, index):
    cache[:, :, index] = k
    return cache * 1


def index_add(x, y, index):
    return torch.zeros_like(x).index_add_(0, index, y)


def one_hot_sum(index):
    return F.one_hot(index, 8).sum(0)


def cumulative_sum(x):
    return x.cumsum(-1)


def argmax(x):
    return x.argmax(-1)


def variance_chain(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()


def swiglu(a, b):
    return F.silu(a) * b


def geglu_split(x):
    a, b = x.chunk(2, -1)
    return F.gelu(a) * b


def long_chain(x):
    y = x
    for i in range(40):
        y = torch.sin(y) * 1.01 + x
    return y


def many_inputs(*xs):
    return sum(xs)


def scalar_head(x, w):
    return F.linear(x, w).squeeze(-1)


def products_of_one(a, b):
    return a @ b


def unfused_attention(q, k, v):
    a = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    return a.softmax(-1) @ v


def masked_sdpa(q, k, v, length):
    mask = torch.arange(k.shape[2], device=k.device)[None, None, None, :] < length[:, None, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def piece_rows():
    piece("add_rms_swiglu_N4096_D4096", add_rms_swiglu, [(4096, 4096)] * 2, [(4096,), (14336, 4096), (14336, 4096)])
    for d in (768, 4096):
        piece(f"add_layer_norm_D{d}", add_layer_norm, [(8192, d)] * 2, [(d,), (d,)])
        piece(f"layer_norm_two_uses_D{d}", layer_norm_two_uses, [(8192, d)], [(d,), (d,), (d, d)])
        piece(f"embed_norm_D{d}", embed_norm, [(50304, (8, 1024))], [(50304, d), (1024, d), (d,), (d,)])
        piece(f"rms_norm_D{d}", rms, [(8192, d)], [(d,)])
    for d in (512, 2048, 50304):
        piece(f"softmax_D{d}", softmax, [(4096, d)])
    piece("scaled_masked_softmax_D1024", scaled_masked_softmax, [(8, 12, 1024, 1024)])
    piece("scaled_masked_softmax_D2048", scaled_masked_softmax, [(2, 12, 2048, 2048)])
    piece("cross_entropy_V50304", cross_entropy, [(8192, 50304), (50304, (8192,))])
    piece("cross_entropy_V512", cross_entropy, [(8192, 512), (512, (8192,))])
    piece("bias_gelu_dropout_eval", bias_gelu_dropout, [(8192, 3072)], [(3072,)])
    piece("bias_gelu_dropout_train", bias_gelu_dropout_train, [(8192, 3072)], [(3072,)])
    piece("linear_gelu_residual", linear_gelu_residual, [(8192, 1024)], [(1024, 1024), (1024,)])
    piece("linear_relu_linear", linear_relu_linear, [(8192, 1024)], [(4096, 1024), (1024, 4096)])
    d = 96
    shapes = [(d, 1, 7, 7), (d,), (d,), (d,), (4 * d, d), (4 * d,), (d, 4 * d), (d,), (d,)]
    piece("convnext_nchw", convnext, [(32, d, 56, 56)], shapes)
    piece("convnext_nhwc", convnext_channels_last, [(32, d, 56, 56)], shapes)
    for shape in ((16384, 4096), (1024, 1024)):
        s = "x".join(map(str, shape))
        piece(f"sum_all_{s}", sum_all, [shape])
        piece(f"sum_first_{s}", sum_first, [shape])
        piece(f"sum_last_{s}", sum_last, [shape])
    piece("sum_last_64x50304", sum_last, [(64, 50304)])
    piece("sum_first_64x50304", sum_first, [(64, 50304)])
    piece("mean_of_squares", mean_of_squares, [(8192, 4096)])
    piece("sum_both", sum_both, [(4096, 4096)])
    piece("amax_and_sum", amax_and_sum, [(4096, 4096)])
    piece("relu_sum_first", relu_sum_first, [(4096, 4096)])
    piece("rope_cat_halves", rope_cat_halves, [(1, 32, 2048, 128), (2048, 128), (2048, 128)])
    piece("rope_stack_pairs", rope_stack_pairs, [(1, 2048, 32, 128), (2048, 1, 64), (2048, 1, 64)])
    piece("rope_two_heads_32_8", rope_two, [(1, 32, 2048, 128), (1, 8, 2048, 128), (2048, 128), (2048, 128)])
    piece("qk_norm_rope", qk_norm_rope, [(1, 2048, 32, 128), (2048, 128), (2048, 128)], [(128,)])
    piece("top_k_routing", top_k_routing, [(2048, 2048)], [(8, 2048)])
    piece("sort_and_count", sort_and_count, [(8, (2048, 2))])
    piece("cat_two", cat_two, [(4096, 2048)] * 2)
    piece("cat_views", cat_views, [(4096, 3072)])
    piece("stack_two", stack_two, [(4096, 2048)] * 2)
    piece("three_shapes", three_shapes, [(4096, 4096), (4096, 1024), (1024, 1024)])
    piece("same_shape_apart", same_shape_apart, [(4096, 4096)] * 3)
    piece("same_input", same_input, [(4096, 4096)])
    piece("outer", outer, [(4096,), (4096,)])
    piece("transpose_add", transpose_add, [(4096, 4096)] * 2)
    piece("transpose_out", transpose_out, [(64, 1024, 256)])
    piece("heads_copy", heads_copy, [(8, 1024, 2304)])
    piece("group_norm_silu", group_norm_silu, [(8, 320, 64, 64)], [(320,), (320,)])
    piece("batch_norm_train_relu", batch_norm_train_relu, [(64, 64, 56, 56)], [(64,), (64,)])
    piece("max_pool", max_pool, [(64, 64, 112, 112)])
    piece("average_pool", average_pool, [(64, 2048, 7, 7)])
    piece("upsample_cat_conv", upsample_cat_conv, [(8, 128, 32, 32), (8, 128, 64, 64)], [(128, 256, 3, 3)])
    piece("conv_bias_relu", conv_bias_relu, [(32, 64, 56, 56)], [(64, 64, 3, 3), (64,)])
    piece("gather_rows", gather_rows, [(32000, 1024), (32000, (4096,))])
    piece("index_put", index_put, [(8, 12, 1024, 64), (8, 12, 1, 64), (1024, (1,))])
    piece("index_add", index_add, [(2048, 2048), (4096, 2048), (2048, (4096,))])
    piece("one_hot_sum", one_hot_sum, [(8, (4096,))])
    piece("cumulative_sum", cumulative_sum, [(1024, 1024)])
    piece("argmax", argmax, [(1024, 50304)])
    piece("variance_chain", variance_chain, [(8192, 1024)])
    piece("swiglu", swiglu, [(4096, 14336)] * 2)
    piece("geglu_split", geglu_split, [(4096, 8192)])
    piece("long_chain_40", long_chain, [(4096, 4096)], dtype=FP32)
    piece("many_inputs_32", many_inputs, [(1024, 1024)] * 32)
    piece("scalar_head", scalar_head, [(4096, 1024)], [(1, 1024)])
    piece("matrix_vector", products_of_one, [(4096, 4096), (4096, 1)])
    piece("one_row_product", products_of_one, [(1, 4096), (4096, 4096)])
    piece("fp32_unfused_attention", unfused_attention, [(2, 4, 512, 64)] * 3, dtype=FP32)
    piece("bf16_unfused_attention", unfused_attention, [(2, 16, 2048, 64)] * 3, note="a pattern that Inductor may turn into fused attention")
    piece("masked_sdpa", masked_sdpa, [(8, 12, 256, 64)] * 3 + [(256, (8,))])


def training_rows():
    """Forward and backward of networks (fp32 weights under autocast to bf16), the optimizer left out."""
    fusion("train/gpt2_L2_B8_T1024", lambda: (Loss(N.Gpt(2)), (N.tokens(8, 1024, 50304), N.tokens(8, 1024, 50304))), "gpt2", {"layers": 2}, 8, 1024,
           dtype=FP32, step="training", train=True, autocast=True, note="cross entropy in the graph; forward and backward")
    fusion("train/llama_160m_L2_B4_T1024", lambda: (Loss(N.Llama(2, 768, 12, 12, 2048, 32000)), (N.tokens(4, 1024, 32000), N.tokens(4, 1024, 32000))),
           "llama_160m", {"layers": 2}, 4, 1024, dtype=FP32, step="training", train=True, autocast=True, note="cross entropy in the graph; forward and backward")
    fusion("autocast/gpt2_L2_B1_T128", lambda: (N.Gpt(2), (N.tokens(1, 128, 50304),)), "gpt2", {"layers": 2}, 1, 128, dtype=FP32, autocast=True,
           note="fp32 weights under autocast to bf16, no_grad")
    fusion("moe_loop_L1_N16", lambda: (N.MoeStack(N.LoopExperts, 1), (torch.randn(16, 2048),)), "moe_layers", {"layers": 1, "routing": "loop"}, 1, 16,
           note="synchronises; several compiled regions")


network_rows()
piece_rows()
training_rows()


# --- whole networks: step times ---------------------------------------------------------------------------------------------------
def step_rows():
    def of(name, network, parameters=None, step="inference", modes=("default", "reduce-overhead"), note="", sequence=0):
        old = next(r for r in N.ROWS if r.name == name)
        steps(old.name, old.build, network, parameters, old.batch, sequence or old.context or old.length, old.dtype, step, modes=modes, note=note)
    both, all4 = ("default", "reduce-overhead"), ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
    of("gpt2_B1_T128", "gpt2")
    of("llama_160m_B1_T128", "llama_160m")
    of("gpt2_B8_T1024", "gpt2")
    of("seed_decoder_B1_T16", "seed_decoder", modes=all4)
    of("seed_decoder_B4_T1024", "seed_decoder", modes=all4)
    of("encoder_B1_T128", "encoder")
    of("vit_b16_B1", "vit")
    of("moe_grouped_N16", "moe_layers")
    of("hand_ln_gelu_N16384", "layer_norm_gelu")
    of("ln_gelu_N16384", "layer_norm_gelu", {"form": "built_in"})
    of("mlp_N16384", "seed_mlp", modes=("default", "reduce-overhead", "max-autotune-no-cudagraphs"))
    steps("llama8b_L8_decode_B1_S1024", lambda: (N.Llama(8, 4096, 32, 8, 14336, 128256, 1024, 1), (N.tokens(1, 1, 128256), torch.tensor([1023]))),
          "llama3_8b", {"layers": 8}, 1, 1024, step="decode", modes=both, note="8 of 32 layers")
    of("resnet50_B64", "resnet50")
    of("gpt2_unfused_B1_T128", "gpt2", {"attention": "unfused"})
    of("vit_b16_B64", "vit")
    of("encoder_B32_T512", "encoder")
    of("gpt2_decode_B1_S1024", "gpt2", step="decode")
    of("llama_160m_lib_B1_T128", "llama_160m", LIBRARY)
    steps("mixtral_small_L4_B1_T256", lambda: (mixtral(4, 1024, 16, 8, 3584, 32000), (N.tokens(1, 256, 32000),)), "mixtral", {"layers": 4} | MIXTRAL, 1, 256)
    of("resnet50_B1", "resnet50")
    of("llama_160m_B4_T1024", "llama_160m")
    of("moe_grouped_N2048", "moe_layers")
    of("gpt2_B1_T1024", "gpt2")
    of("mlp_N64", "seed_mlp", modes=all4)


step_rows()
