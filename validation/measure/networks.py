# SPDX-License-Identifier: Apache-2.0
"""The networks whose steps are measured, written plainly in PyTorch, and the list of measured rows.

Weights are random. Every network is built on the GPU in the row's dtype, so that its memory holds nothing else.
ROWS at the end of the file: add yours there.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

BF16 = torch.bfloat16
DEV = "cuda"


def tokens(batch, length, vocab):
    return torch.randint(0, vocab, (batch, length), device=DEV)


# --- GPT-2 -----------------------------------------------------------------------------------------------------------
class GptBlock(nn.Module):
    """Pre-norm block: LayerNorm with bias, one projection for q, k and v, GELU (tanh)."""

    def __init__(self, d, heads, flash=True, cache=0, batch=1):
        super().__init__()
        self.heads, self.flash = heads, flash
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        if cache:
            self.register_buffer("kc", torch.zeros(batch, heads, cache, d // heads), False)
            self.register_buffer("vc", torch.zeros(batch, heads, cache, d // heads), False)

    def forward(self, x, pos=None, mask=None):
        b, t, c = x.shape
        h = self.heads
        q, k, v = (u.view(b, t, h, c // h).transpose(1, 2) for u in self.qkv(self.ln1(x)).split(c, 2))
        if pos is not None:
            self.kc[:, :, pos] = k
            self.vc[:, :, pos] = v
            y = F.scaled_dot_product_attention(q, self.kc, self.vc, attn_mask=mask)
        elif self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            a = (q @ k.transpose(-2, -1)) * (c // h) ** -0.5
            a = a.masked_fill(self.mask[:t, :t] == 0, float("-inf")).softmax(-1)
            y = a @ v
        x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2 (124M with the defaults), tied head. With cache > 0 a decode step: one new token at `pos`."""

    def __init__(self, layers=12, d=768, heads=12, vocab=50304, context=1024, flash=True, cache=0, batch=1):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(context, d)
        self.blocks = nn.ModuleList(GptBlock(d, heads, flash, cache, batch) for _ in range(layers))
        self.lnf, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
        self.head.weight = self.wte.weight
        if not flash:
            mask = torch.tril(torch.ones(context, context))
            for block in self.blocks:
                block.register_buffer("mask", mask)
        if cache:
            self.register_buffer("mask", torch.tril(torch.ones(cache, cache, dtype=torch.bool)), False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, pos=None):
        if pos is None:
            x, mask = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device)), None
        else:
            x, mask = self.wte(ids) + self.wpe(pos), self.mask[pos][None, None]
        for block in self.blocks:
            x = block(x, pos, mask)
        return self.head(self.lnf(x))


# --- Llama -----------------------------------------------------------------------------------------------------------
class HandRmsNorm(nn.Module):
    """Root-mean-square norm written out in tensor operations."""

    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.w


class LibraryRmsNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.w, 1e-5)


def hand_rope(x, cos, sin):
    """Rotary embedding of adjacent pairs, computed in fp32; x is (batch, time, heads, head size)."""
    a = x.float().reshape(*x.shape[:-1], -1, 2)
    return torch.stack((a[..., 0] * cos - a[..., 1] * sin, a[..., 1] * cos + a[..., 0] * sin), -1).flatten(-2).type_as(x)


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2:], x[..., : x.shape[-1] // 2]), dim=-1)


def half_rope(x, cos, sin):
    """Rotary embedding of the two halves, as Hugging Face writes it; x is (batch, heads, time, head size)."""
    return (x * cos) + (rotate_half(x) * sin)


class LlamaBlock(nn.Module):
    def __init__(self, d, heads, kv_heads, ff, cache=0, batch=1, library=False):
        super().__init__()
        self.heads, self.kv_heads, self.hd, self.library = heads, kv_heads, d // heads, library
        norm = LibraryRmsNorm if library else HandRmsNorm
        self.n1, self.n2 = norm(d), norm(d)
        self.wq, self.wo = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wk, self.wv = (nn.Linear(d, kv_heads * self.hd, bias=False) for _ in range(2))
        self.w1, self.w3 = nn.Linear(d, ff, bias=False), nn.Linear(d, ff, bias=False)
        self.w2 = nn.Linear(ff, d, bias=False)
        if cache:
            self.register_buffer("kc", torch.zeros(batch, kv_heads, cache, self.hd), False)
            self.register_buffer("vc", torch.zeros(batch, kv_heads, cache, self.hd), False)

    def forward(self, x, cos, sin, pos=None, mask=None):
        b, t, c = x.shape
        y = self.n1(x)
        q = self.wq(y).view(b, t, self.heads, self.hd)
        k = self.wk(y).view(b, t, self.kv_heads, self.hd)
        v = self.wv(y).view(b, t, self.kv_heads, self.hd)
        if self.library:
            q, k = half_rope(q.transpose(1, 2), cos, sin), half_rope(k.transpose(1, 2), cos, sin)
        else:
            q, k = hand_rope(q, cos, sin).transpose(1, 2), hand_rope(k, cos, sin).transpose(1, 2)
        v = v.transpose(1, 2)
        gqa = self.heads != self.kv_heads
        if pos is None:
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa)
        else:
            if self.library:
                self.kc.index_copy_(2, pos, k)
                self.vc.index_copy_(2, pos, v)
            else:
                self.kc[:, :, pos] = k
                self.vc[:, :, pos] = v
            o = F.scaled_dot_product_attention(q, self.kc, self.vc, attn_mask=mask, enable_gqa=gqa)
        x = x + self.wo(o.transpose(1, 2).reshape(b, t, c))
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """library=False: RMSNorm and rotary embedding written out; library=True: F.rms_norm and rotate-half.
    The rotary tables are in the network's dtype. With cache > 0 a decode step at `pos`."""

    def __init__(self, layers, d, heads, kv_heads, ff, vocab, cache=0, batch=1, library=False, max_length=8192):
        super().__init__()
        self.library = library
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(LlamaBlock(d, heads, kv_heads, ff, cache, batch, library) for _ in range(layers))
        self.n = (LibraryRmsNorm if library else HandRmsNorm)(d)
        self.head = nn.Linear(d, vocab, bias=False)
        hd = d // heads
        angle = torch.outer(torch.arange(max_length).float(), 10000.0 ** (-torch.arange(0, hd, 2).float() / hd))
        if library:
            angle = torch.cat((angle, angle), -1)
        dtype = self.head.weight.dtype
        self.register_buffer("cos", angle.cos().to(dtype), False)
        self.register_buffer("sin", angle.sin().to(dtype), False)
        if cache:
            self.register_buffer("mask", torch.tril(torch.ones(cache, cache, dtype=torch.bool)), False)

    def forward(self, ids, pos=None):
        x, mask = self.emb(ids), None
        if pos is None:
            cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        else:
            cos, sin, mask = self.cos[pos], self.sin[pos], self.mask[pos][None, None]
        if not self.library:
            cos, sin = cos[:, None], sin[:, None]
        for block in self.blocks:
            x = block(x, cos, sin, pos, mask)
        return self.head(self.n(x))


# --- post-norm encoder (the shape of BERT base) --------------------------------------------------------------------------
class EncoderBlock(nn.Module):
    def __init__(self, d, heads, ff):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, ff), nn.Linear(ff, d)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (w(x).view(b, t, self.heads, c // self.heads).transpose(1, 2) for w in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c)
        x = self.ln1(self.o(y) + x)
        return self.ln2(self.down(F.gelu(self.up(x))) + x)


class Encoder(nn.Module):
    def __init__(self, layers=12, d=768, heads=12, ff=3072, vocab=30522, context=512):
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(vocab, d), nn.Embedding(context, d), nn.Embedding(2, d)
        self.ln = nn.LayerNorm(d)
        self.blocks = nn.ModuleList(EncoderBlock(d, heads, ff) for _ in range(layers))

    def forward(self, ids, kinds):
        x = self.ln(self.word(ids) + self.kind(kinds) + self.position(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.blocks:
            x = block(x)
        return x


# --- vision transformer ----------------------------------------------------------------------------------------------
class VitBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Vit(nn.Module):
    """ViT-B/16 with the defaults."""

    def __init__(self, image=224, patch=16, layers=12, d=768, heads=12, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, d) * 0.02)
        self.blocks = nn.ModuleList(VitBlock(d, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)[:, 0])


# --- mixture of experts --------------------------------------------------------------------------------------------------
class Experts(nn.Module):
    """Router (linear, softmax over the experts, top k, renormalised) and SwiGLU experts."""

    def __init__(self, d, ff, experts, top_k):
        super().__init__()
        self.experts, self.top_k, self.ff = experts, top_k, ff
        self.router = nn.Linear(d, experts, bias=False)
        self.gate_up = nn.Parameter(torch.randn(experts, 2 * ff, d) * d ** -0.5)
        self.down = nn.Parameter(torch.randn(experts, d, ff) * ff ** -0.5)

    def route(self, x):
        p = F.softmax(self.router(x).float(), dim=-1)
        weight, chosen = torch.topk(p, self.top_k, dim=-1)
        return (weight / weight.sum(dim=-1, keepdim=True)).to(x.dtype), chosen


class LoopExperts(Experts):
    """As Hugging Face writes it: a Python loop over the experts that were chosen (data-dependent: synchronises)."""

    def forward(self, x):
        weight, chosen = self.route(x)
        out = torch.zeros_like(x)
        mask = F.one_hot(chosen, num_classes=self.experts).permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for e in hit:
            e = e[0]
            place, token = torch.where(mask[e])
            gate, up = F.linear(x[token], self.gate_up[e]).chunk(2, dim=-1)
            y = F.linear(F.silu(gate) * up, self.down[e])
            y = y * weight[token, place, None]
            out.index_add_(0, token, y.to(out.dtype))
        return out


class GroupedExperts(Experts):
    """Tokens sorted by expert, then grouped products: no synchronisation, so a CUDA graph can capture it."""

    def forward(self, x):
        weight, chosen = self.route(x)
        flat = chosen.reshape(-1)
        order = torch.argsort(flat)
        token = order // self.top_k
        count = torch.histc(flat.to(torch.int32), bins=self.experts, min=0, max=self.experts - 1)
        ends = torch.cumsum(count, 0, dtype=torch.int32)
        gate, up = torch._grouped_mm(x[token], self.gate_up.transpose(-2, -1), offs=ends).chunk(2, dim=-1)
        y = torch._grouped_mm(F.silu(gate) * up, self.down.transpose(-2, -1), offs=ends)
        y = y * weight.reshape(-1)[order][:, None]
        return torch.zeros_like(x).index_add_(0, token, y)


class MoeStack(nn.Module):
    """Pre-norm expert layers with residual, without attention."""

    def __init__(self, kind, layers=4, d=2048, ff=7168, experts=8, top_k=2):
        super().__init__()
        self.norms = nn.ModuleList(LibraryRmsNorm(d) for _ in range(layers))
        self.layers = nn.ModuleList(kind(d, ff, experts, top_k) for _ in range(layers))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


# --- single layers ---------------------------------------------------------------------------------------------------------
class SeedDecoder(nn.Module):
    """Decoder layer: RMSNorm, nn.MultiheadAttention, SwiGLU."""

    def __init__(self, d=2048, heads=16, ff=8192):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.g, self.u, self.o = nn.Linear(d, ff, bias=False), nn.Linear(d, ff, bias=False), nn.Linear(ff, d, bias=False)

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        y = self.n2(x)
        return x + self.o(F.silu(self.g(y)) * self.u(y))


class Mlp(nn.Module):
    """MLP sublayer: product, bias, GELU (tanh), product, bias, residual, next LayerNorm."""

    def __init__(self, d=4096, ff=16384):
        super().__init__()
        self.up, self.down, self.ln = nn.Linear(d, ff), nn.Linear(ff, d), nn.LayerNorm(d)

    def forward(self, x):
        return self.ln(x + self.down(F.gelu(self.up(x), approximate="tanh")))


class HandLnGelu(nn.Module):
    """LayerNorm and GELU written out in tensor operations."""

    def __init__(self, d=4096):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(d)), nn.Parameter(torch.randn(d))

    def forward(self, x):
        m = x.mean(-1, keepdim=True)
        c = x - m
        v = (c * c).mean(-1, keepdim=True)
        h = c * torch.rsqrt(v + 1e-5) * self.w + self.b
        return 0.5 * h * (1 + torch.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))


class LnGelu(HandLnGelu):
    def forward(self, x):
        return F.gelu(F.layer_norm(x, (x.shape[-1],), self.w, self.b), approximate="tanh")


# --- the rows ----------------------------------------------------------------------------------------------------------------
class Row:
    """One measured workload. build() gives (module, inputs); it runs with the row's dtype as default and on the GPU."""

    def __init__(self, name, network, batch, length, build, dtype=BF16, modes=("eager", "cudagraph"), context=0, note=""):
        self.name, self.network, self.batch, self.length, self.build = name, network, batch, length, build
        self.dtype, self.modes, self.context, self.note = dtype, modes, context, note


ROWS = []


def row(*args, **kw):
    ROWS.append(Row(*args, **kw))


def gpt_rows(network, flash, shapes):
    for b, t in shapes:
        row(f"{network}_B{b}_T{t}", network, b, t, lambda b=b, t=t: (Gpt(flash=flash), (tokens(b, t, 50304),)))


def gpt_decode(b, s):
    row(f"gpt2_decode_B{b}_S{s}", "gpt2_decode", b, 1, context=s,
        build=lambda: (Gpt(cache=s, batch=b), (tokens(b, 1, 50304), torch.tensor([s - 1]))))


def llama8b(b, t, library):
    name = "llama8b_lib" if library else "llama8b"
    row(f"{name}_B{b}_T{t}", name, b, t,
        build=lambda: (Llama(32, 4096, 32, 8, 14336, 128256, library=library), (tokens(b, t, 128256),)))


def llama8b_decode(b, s, library):
    name = "llama8b_lib_decode" if library else "llama8b_decode"
    row(f"{name}_B{b}_S{s}", name, b, 1, context=s,
        build=lambda: (Llama(32, 4096, 32, 8, 14336, 128256, s, b, library), (tokens(b, 1, 128256), torch.tensor([s - 1]))))


def llama160m(b, t, library=False):
    name = "llama_160m_lib" if library else "llama_160m"
    row(f"{name}_B{b}_T{t}", name, b, t,
        build=lambda: (Llama(16, 768, 12, 12, 2048, 32000, library=library), (tokens(b, t, 32000),)))


def encoder(b, t):
    row(f"encoder_B{b}_T{t}", "encoder", b, t,
        build=lambda: (Encoder(), (tokens(b, t, 30522), torch.zeros(b, t, dtype=torch.long))))


def vit(b):
    row(f"vit_b16_B{b}", "vit_b16", b, 197, build=lambda: (Vit(), (torch.randn(b, 3, 224, 224),)))


def resnet(b, layout="nhwc", dtype=BF16):
    def build():
        import torchvision
        model, x = torchvision.models.resnet50(), torch.randn(b, 3, 224, 224)
        if layout == "nhwc":
            model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
        return model, (x,)
    name = "resnet50" + ("" if layout == "nhwc" else "_nchw") + ("" if dtype == BF16 else "_fp16")
    row(f"{name}_B{b}", name, b, 1, build, dtype=dtype, note="channels_last" if layout == "nhwc" else "contiguous")


def moe(n):
    row(f"moe_loop_N{n}", "moe_loop", 1, n, modes=("eager",), build=lambda: (MoeStack(LoopExperts), (torch.randn(n, 2048),)),
        note="synchronises twice per layer and once per expert")
    row(f"moe_grouped_N{n}", "moe_grouped", 1, n, build=lambda: (MoeStack(GroupedExperts), (torch.randn(n, 2048),)))


def decoder(b, t):
    row(f"seed_decoder_B{b}_T{t}", "seed_decoder", b, t, build=lambda: (SeedDecoder(), (torch.randn(b, t, 2048),)))


# In the order of their worth: where time runs out the last ones are lost.
gpt_rows("gpt2", True, [(8, 1024), (1, 128)])
llama8b(1, 2048, False)
llama8b_decode(1, 1024, False)
llama8b_decode(32, 1024, False)
encoder(32, 512)
encoder(1, 128)
vit(64)
vit(1)
resnet(64)
resnet(1)
moe(2048)
moe(16)
decoder(4, 1024)
decoder(1, 16)
gpt_decode(1, 1024)
gpt_rows("gpt2_unfused", False, [(8, 1024), (1, 128)])
llama8b(1, 2048, True)
llama8b_decode(1, 1024, True)
llama8b_decode(32, 1024, True)
llama160m(1, 128)
row("mlp_N16384", "mlp", 1, 16384, build=lambda: (Mlp(), (torch.randn(16384, 4096),)))
row("hand_ln_gelu_N16384", "hand_ln_gelu", 1, 16384, build=lambda: (HandLnGelu(), (torch.randn(16384, 4096),)))
row("ln_gelu_N16384", "ln_gelu", 1, 16384, build=lambda: (LnGelu(), (torch.randn(16384, 4096),)))
resnet(64, "nchw")
resnet(64, dtype=torch.float16)
gpt_decode(8, 1024)
llama8b(1, 16, False)
llama8b(1, 16, True)
gpt_rows("gpt2", True, [(2, 256)])
llama8b_decode(8, 4096, False)
llama8b_decode(8, 4096, True)
encoder(8, 256)
vit(8)
resnet(16)
moe(256)
gpt_rows("gpt2_unfused", False, [(2, 256)])
llama160m(1, 128, True)
llama160m(4, 1024)
decoder(1, 256)
row("mlp_N64", "mlp", 1, 64, build=lambda: (Mlp(), (torch.randn(64, 4096),)))
row("hand_ln_gelu_N256", "hand_ln_gelu", 1, 256, build=lambda: (HandLnGelu(), (torch.randn(256, 4096),)))
row("ln_gelu_N256", "ln_gelu", 1, 256, build=lambda: (LnGelu(), (torch.randn(256, 4096),)))
gpt_rows("gpt2", True, [(1, 1024)])
llama8b(1, 512, True)
encoder(64, 128)
moe(8192)
resnet(256)
vit(256)
