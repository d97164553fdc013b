# SPDX-License-Identifier: Apache-2.0
"""GPU durations of kernels that training steps launch: gradients of products, TF32, fp32 attention, bias sums, batch norm, convolutions.

usage: training_kernels.py OUT [--only REGEX] [--seconds N]

As kernels.py, whose helpers it uses; results go to OUT/training_kernels.jsonl. Products are named by what they compute:
gemm_dx is [M,N] x [N,K], gemm_dw is [M,N]^T x [M,K], M tokens, N features out, K features in.
"""
import argparse
import json
import os
import re
import time

import torch
import torch.nn.functional as F
import kernels as K
import timing
from kernels import BF16, FP32, rnd, rotate

K.CASES.clear()
K.SEEN.clear()
FORM = torch.channels_last

PAIRS = [(768, 768), (2304, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 1024), (1024, 4096), (2048, 768), (768, 2048), (4096, 4096),
         (14336, 4096), (50304, 768), (1000, 2048)]
for m in (256, 512, 2048, 4096, 8192, 16384):
    for n, k in PAIRS:
        if m * n * k > 16384 * 50304 * 768 or (n * k > 1 << 24 and m > 4096 and n < 50000):
            continue
        rotate(f"gemm_dw/bf16/{m}x{n}x{k}", lambda m=m, n=n, k=k: (rnd(m, n), rnd(m, k)), lambda g, x: g.t() @ x, most=6)
        rotate(f"gemm_dx/bf16/{m}x{n}x{k}", lambda m=m, n=n, k=k: (rnd(m, n), rnd(n, k)), lambda g, w: g @ w, most=6)
for m in (512, 2048, 8192):
    for n, k in [(768, 768), (3072, 768), (768, 3072), (4096, 4096), (50304, 768)]:
        rotate(f"gemm/tf32/{m}x{n}x{k}", lambda m=m, n=n, k=k: (rnd(m, k, dt=FP32), rnd(n, k, dt=FP32)), lambda x, w: F.linear(x, w), most=4)
        rotate(f"gemm_dw/tf32/{m}x{n}x{k}", lambda m=m, n=n, k=k: (rnd(m, n, dt=FP32), rnd(m, k, dt=FP32)), lambda g, x: g.t() @ x, most=4)
        rotate(f"gemm_dx/tf32/{m}x{n}x{k}", lambda m=m, n=n, k=k: (rnd(m, n, dt=FP32), rnd(n, k, dt=FP32)), lambda g, w: g @ w, most=4)


def attention(name, b, h, t, d, dt, causal):
    def make():
        return tuple(rnd(b, t, h, d, dt=dt).transpose(1, 2).requires_grad_() for _ in range(3)) + (rnd(b, t, h, d, dt=dt).transpose(1, 2),)
    tail = f"{'causal' if causal else 'full'}/{b}x{h}x{t}x{d}"
    rotate(f"{name}/fwd/{tail}", make, lambda q, k, v, g: F.scaled_dot_product_attention(q, k, v, is_causal=causal), most=4)

    def backward(q, k, v, g):
        with torch.enable_grad():
            o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        torch.autograd.grad(o, (q, k, v), g)
    rotate(f"{name}/fwd+bwd/{tail}", make, backward, most=4)


for b, h, t, d in ((1, 12, 128, 64), (4, 12, 512, 64), (8, 12, 1024, 64), (2, 16, 2048, 64), (2, 16, 1024, 128), (1, 16, 4096, 128)):
    for causal in (True, False):
        attention("sdpa/fp32", b, h, t, d, FP32, causal)
        attention("sdpa/bf16", b, h, t, d, BF16, causal)
for t in (512, 2048, 8192, 16384):
    for n in (768, 2304, 3072, 1024, 4096):
        rotate(f"red/sum_rows/bf16/{t}x{n}", lambda t=t, n=n: (rnd(t, n),), lambda x: x.sum(0), most=8)
    rotate(f"red/sum_rows/fp32/{t}x768", lambda t=t: (rnd(t, 768, dt=FP32),), lambda x: x.sum(0), most=8)


def batch_norm(n, c, s):
    def make():
        return (rnd(n, c, s, s).contiguous(memory_format=FORM).requires_grad_(), torch.ones(c, device="cuda").requires_grad_(), torch.zeros(c, device="cuda").requires_grad_(),
                torch.zeros(c, device="cuda"), torch.ones(c, device="cuda"), rnd(n, c, s, s).contiguous(memory_format=FORM))
    rotate(f"batch_norm_train/fwd/N{n}C{c}H{s}", make, lambda x, w, b, m, v, g: F.batch_norm(x, m, v, w, b, True), most=4)

    def backward(x, w, b, m, v, g):
        with torch.enable_grad():
            y = F.batch_norm(x, m, v, w, b, True)
        torch.autograd.grad(y, (x, w, b), g)
    rotate(f"batch_norm_train/fwd+bwd/N{n}C{c}H{s}", make, backward, most=4)


for n in (8, 32, 128):
    for c, s in ((64, 112), (64, 56), (256, 56), (128, 28), (512, 28), (256, 14), (1024, 14), (512, 7), (2048, 7)):
        batch_norm(n, c, s)


def conv_backward(n, c, h, k, r, s):
    def make():
        x, w = rnd(n, c, h, h).contiguous(memory_format=FORM), rnd(k, c, r, r).contiguous(memory_format=FORM)
        return x, w, F.conv2d(x, w, stride=s, padding=r // 2)
    for what, mask in (("dx", [True, False, False]), ("dw", [False, True, False])):
        rotate(f"conv_{what}/N{n}C{c}H{h}K{k}k{r}s{s}", make, lambda x, w, g, mask=mask: torch.ops.aten.convolution_backward(
            g, x, w, None, [s, s], [r // 2, r // 2], [1, 1], False, [0, 0], 1, mask), most=4)


for n in (8, 128):
    for c, h, k, r, s in K.RESNET:
        conv_backward(n, c, h, k, r, s)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    torch.set_grad_enabled(False)
    begin, done = time.time(), 0
    cases = [c for c in K.CASES if re.search(args.only, c[0])]
    with open(f"{args.out}/training_kernels.jsonl", "a") as file:
        while cases and time.time() - begin < args.seconds:
            now, cases = cases[:40], cases[40:]
            for name, result in timing.profile_cases(now, repetitions=5):
                file.write(json.dumps({"case": name, **result}) + "\n")
                file.flush()
                done += 1
    print(f"{done} cases in {time.time() - begin:.0f} s, {len(cases)} left", flush=True)


if __name__ == "__main__":
    main()
