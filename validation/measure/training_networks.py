# SPDX-License-Identifier: Apache-2.0
"""What training_steps.py measures: networks.py's networks with a loss, an optimizer and a precision.

A row's `sets` are the keys of a scenario that say the same (validation/h200/training.yaml); `gb` is what its process may hold while
several compile at once.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint

import networks as N

BF16, FP32 = torch.bfloat16, torch.float32


class Loss(nn.Module):
    """A network and the mean cross entropy of its logits, or (labels left out) the mean of its output."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs, labels=None):
        y = self.inner(*inputs)
        return y.mean() if labels is None else F.cross_entropy(y.view(-1, y.shape[-1]), labels.view(-1))


class CheckpointedGpt(N.Gpt):
    """Each block keeps its input alone and runs again in backward."""

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return self.head(self.lnf(x))


class Row:
    """precision: autocast (fp32 weights, bf16 products), pure (bf16), fp32 (products in TF32). optimizer: of a scenario, and
    `clip` its clip_norm; none: an inference step. accumulation: micro-batches before the optimizer runs."""

    def __init__(self, name, network, batch, sequence, build, parameters=None, precision="autocast", optimizer="adamw_fused", clip=None,
                 accumulation=1, checkpointing=False, loss="cross_entropy", modes=("eager", "default"), gb=20):
        self.name, self.network, self.batch, self.sequence, self.build = name, network, batch, sequence, build
        self.parameters, self.precision, self.optimizer, self.clip = parameters or {}, precision, optimizer, clip
        self.accumulation, self.checkpointing, self.loss, self.modes, self.gb = accumulation, checkpointing, loss, modes, gb

    def sets(self):
        out = [f"workload.network={self.network}", f"workload.batch={self.batch}", f"workload.sequence={self.sequence}"]
        out += [f"workload.parameters.{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.parameters.items()]
        if not self.optimizer:
            return out + ["workload.step=inference"]
        if self.clip:
            kind, loop = self.optimizer.rsplit("_", 1)
            out.append(f"workload.optimizer={{kind: {kind}, loop: {loop}, clip_norm: true}}")
        elif self.optimizer == "sgd_momentum":
            out.append("workload.optimizer={kind: sgd, loop: foreach, momentum: true}")
        else:
            out.append(f"workload.optimizer={self.optimizer}")
        if self.precision == "fp32":
            out.append("workload.dtype=fp32")
        elif self.precision != "autocast":
            out.append(f"workload.precision={self.precision}")
        if self.accumulation > 1:
            out.append(f"workload.accumulation={self.accumulation}")
        if self.checkpointing:
            out.append("workload.checkpointing=blocks")
        if self.loss != "cross_entropy":
            out.append(f"workload.loss={self.loss}")
        return out


ROWS = []


def row(*args, **kw):
    ROWS.append(Row(*args, **kw))


def gpt(name, b, t, layers=12, d=768, heads=12, vocab=50304, flash=True, checkpointed=False, parameters=None, **kw):
    def build():
        kind = CheckpointedGpt if checkpointed else N.Gpt
        return kind(layers, d, heads, vocab, flash=flash), (N.tokens(b, t, vocab),), N.tokens(b, t, vocab)
    row(f"{name}_B{b}_T{t}", "gpt2", b, t, build, parameters, checkpointing=checkpointed, **kw)


def llama(name, b, t, library=False, **kw):
    row(f"{name}_B{b}_T{t}", "llama_160m", b, t,
        lambda: (N.Llama(16, 768, 12, 12, 2048, 32000, library=library), (N.tokens(b, t, 32000),), N.tokens(b, t, 32000)),
        {"norm": "library", "rope": "library"} if library else {}, **kw)


def encoder(b, t, **kw):
    row(f"encoder_B{b}_T{t}", "encoder", b, t,
        lambda: (N.Encoder(), (N.tokens(b, t, 30522), torch.zeros(b, t, dtype=torch.long)), None), loss="mean", **kw)


def vit(b, **kw):
    row(f"vit_b16_B{b}", "vit", b, 1, lambda: (N.Vit(), (torch.randn(b, 3, 224, 224),), torch.randint(0, 1000, (b,))), **kw)


def resnet(b, **kw):
    def build():
        import torchvision
        model, x = torchvision.models.resnet50(), torch.randn(b, 3, 224, 224)
        return (model.to(memory_format=torch.channels_last), (x.contiguous(memory_format=torch.channels_last),),
                torch.randint(0, 1000, (b,)))
    row(f"resnet50_B{b}", "resnet50", b, 1, build, **kw)


def moe(n, **kw):
    row(f"moe_grouped_N{n}", "moe_layers", 1, n, lambda: (N.MoeStack(N.GroupedExperts), (torch.randn(n, 2048),), None), loss="mean", **kw)


ALL = ("eager", "default", "reduce-overhead")
EAGER = ("eager",)
MEDIUM = {"layers": 24, "d_model": 1024, "heads": 16}

# In the order of their worth: where time runs out the last ones are lost.
llama("llama_160m_inference", 1, 128, optimizer="", precision="pure", modes=("eager", "default"), gb=3)
gpt("gpt2_unfused_V50257", 16, 1024, vocab=50257, flash=False, parameters={"attention": "unfused", "vocab": 50257}, gb=50)
gpt("gpt2", 2, 256, modes=ALL, gb=5)
gpt("gpt2_checkpointed", 2, 256, checkpointed=True, modes=EAGER, gb=5)
gpt("gpt2_medium_checkpointed", 8, 1024, 24, 1024, 16, checkpointed=True, parameters=MEDIUM, modes=EAGER, gb=20)
resnet(64)
vit(64)
llama("llama_160m", 4, 1024)
llama("llama_160m", 1, 128, modes=ALL, gb=6)
encoder(16, 512)
gpt("gpt2_pure", 8, 1024, precision="pure", gb=15)
gpt("gpt2_clipped_foreach", 8, 512, optimizer="adamw_foreach", clip=True, modes=EAGER, gb=12)
gpt("gpt2_accumulated", 4, 512, accumulation=4, gb=12)
llama("llama_160m_lib", 4, 1024, library=True)
gpt("gpt2", 16, 1024, modes=("eager", "default"), gb=18)
gpt("gpt2_fp32", 4, 512, precision="fp32", gb=12)
resnet(16, modes=("eager", "default", "reduce-overhead"), gb=8)
gpt("gpt2_sgd", 8, 512, optimizer="sgd_momentum", modes=EAGER, gb=12)
gpt("gpt2_loops", 2, 256, optimizer="adamw_for", modes=EAGER, gb=6)
gpt("gpt2_unfused", 4, 512, flash=False, parameters={"attention": "unfused"}, gb=15)
moe(2048, precision="pure", gb=15)
encoder(2, 128, modes=ALL, gb=6)
vit(8, modes=("eager", "default"), gb=8)
