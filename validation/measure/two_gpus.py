# SPDX-License-Identifier: Apache-2.0
"""Two GPUs of one host: collectives alone, beside compute and in CUDA graphs; steps of data and tensor parallel networks.

usage: two_gpus.py PART OUT [--only REGEX] [--seconds N] [--quick]       PART: collectives, overlap, steps

Two processes, one a GPU, are started for each part, and for each row of `steps` two new ones. What a rank finds goes to
OUT/PART.jsonl as it comes (one line a case, rank 0's clock unless the key says otherwise); the operations of one step of each row, with
their streams and times, to OUT/ops/ROW.RANK.csv.
"""
import argparse
import csv
import gc
import json
import os
import re
import signal
import statistics
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import networks as N
import timing
import training_networks

BF16, FP32 = torch.bfloat16, torch.float32
RANKS = 2


# --- two processes ---------------------------------------------------------------------------------------------------
def on_two(function, seconds, port=[29600]):
    """Runs function(rank) in two new processes; ends both when one fails or the time is over. True when both came to their end."""
    port[0] += 1
    children = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port[0]), RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank))
                torch.cuda.set_device(rank)
                dist.init_process_group("nccl", rank=rank, world_size=RANKS, device_id=torch.device("cuda", rank))
                function(rank)
                status = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(pid)
    good, left, end = True, set(children), time.time() + seconds
    while left:
        for pid in list(left):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                left.discard(pid)
                if status:
                    good, end = False, min(end, time.time() + 2)
        if left and time.time() > end:
            good = False
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            end += 5
        time.sleep(0.02)
    return good


def agreed(value, op=dist.ReduceOp.MAX):
    """The same number on both ranks: how often to repeat must not differ."""
    t = torch.tensor([float(value)], device="cuda", dtype=torch.float64)
    dist.all_reduce(t, op=op)
    return t.item()


def of_ranks(value):
    out = [None] * RANKS
    dist.all_gather_object(out, value)
    return out


def put(path, line):
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


# --- collectives ---------------------------------------------------------------------------------------------------
def collective(kind, nbytes, dtype):
    """(call, with async_op) of a collective whose larger buffer on a rank has nbytes."""
    size = torch.empty(0, dtype=dtype).element_size()
    n = max(nbytes // size, RANKS)
    large, small = torch.ones(n, device="cuda", dtype=dtype), torch.ones(n // RANKS, device="cuda", dtype=dtype)
    other = torch.ones(n, device="cuda", dtype=dtype)
    rank = dist.get_rank()
    if kind == "all_reduce":
        return lambda a=False: dist.all_reduce(large, async_op=a)
    if kind == "all_gather":
        return lambda a=False: dist.all_gather_into_tensor(large, small, async_op=a)
    if kind == "reduce_scatter":
        return lambda a=False: dist.reduce_scatter_tensor(small, large, async_op=a)
    if kind == "broadcast":
        return lambda a=False: dist.broadcast(large, 0, async_op=a)
    if kind == "all_to_all":
        return lambda a=False: dist.all_to_all_single(other, large, async_op=a)
    if kind == "send_receive":  # rank 0 sends, rank 1 receives
        return lambda a=False: dist.send(large, 1) if rank == 0 else dist.recv(large, 0)
    assert kind == "exchange"   # both ways at once

    def both(a=False):
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, large, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]):
            work.wait()
    return both


KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_receive", "exchange")


def events_us(f, calls, repetitions=10, warm=2):
    """Microseconds of a call by CUDA events around `calls` of them, the ranks starting together; median."""
    out = []
    for i in range(repetitions + warm):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(calls):
            f()
        b.record()
        torch.cuda.synchronize()
        if i >= warm:
            out.append(a.elapsed_time(b) * 1000 / calls)
    return statistics.median(out)


def graph_us(f, nodes, repetitions=10):
    """Microseconds of a call as one of `nodes` in a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        f()
        f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(nodes):
            f()
    torch.cuda.synchronize()
    us = events_us(graph.replay, 1, repetitions)
    del graph
    return us / nodes


def kernels_of(f, calls):
    """[(name, us, grid, block, registers, shared memory)] of the kernels that f launched, under the profiler."""
    from torch.profiler import ProfilerActivity, profile
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        for _ in range(calls):
            f()
        torch.cuda.synchronize()
    return [(e["name"], round(e["dur"], 3), timing.dims(e["args"].get("grid")), timing.dims(e["args"].get("block")),
             e["args"].get("registers per thread"), e["args"].get("shared memory"), e["args"].get("stream"), e["cat"])
            for e in sorted(timing.read_trace(prof), key=lambda e: e.get("ts", 0)) if e.get("cat") in timing.GPU_CATEGORIES]


def host_us(f, calls=150, rounds=5):
    """Host microseconds of a call with nothing to wait for: the queue never fills."""
    out = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            f()
        out.append((time.perf_counter() - begin) / calls * 1e6)
    torch.cuda.synchronize()
    return statistics.median(out)


def collectives(rank, args):
    out = f"{args.out}/collectives.jsonl"
    begin = time.time()
    if rank == 0:
        put(out, {"machine": timing.machine(), "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                  "environment": {k: v for k, v in os.environ.items() if k.startswith(("NCCL", "TORCH_NCCL"))}})
    for kind in KINDS:  # the host first: a profiler makes launches dearer for good
        f = collective(kind, 1024, BF16)
        for _ in range(5):
            f()
        line = {"host": kind, "sync_us": round(host_us(f), 2)}
        if kind not in ("send_receive", "exchange"):
            works = []

            def asynchronous():
                works.append(f(True))

            def waited():
                f(True).wait()
            line.update(async_us=round(host_us(asynchronous), 2), async_wait_us=round(host_us(waited), 2))
            works.clear()
        line["ranks"] = of_ranks(line["sync_us"])
        if rank == 0:
            put(out, line)
            print(line, flush=True)
    barrier = round(host_us(dist.barrier), 2)
    if rank == 0:
        put(out, {"host": "barrier", "sync_us": barrier})
    cases = [(kind, lg, dtype) for dtype, kinds, powers in ((BF16, KINDS, range(10, 31)), (FP32, ("all_reduce", "reduce_scatter"), range(12, 31, 2)))
             for kind in kinds for lg in powers]
    cases = [c for c in cases if re.search(args.only, f"{c[0]}/{c[1]}")]
    for kind, lg, dtype in cases:
        if agreed(time.time() - begin) > args.seconds:
            break
        f = collective(kind, 1 << lg, dtype)
        for _ in range(3):
            f()
        line = {"collective": kind, "bytes": 1 << lg, "dtype": str(dtype)[6:]}
        line["eager_us"] = round(events_us(f, 4, 5 if lg > 26 else 8), 3)
        try:
            line["graph_us"] = round(graph_us(f, 40 if lg < 24 else 8, 5), 3)
        except Exception as error:
            line["graph_error"] = repr(error)[:200]
        if rank == 0:
            put(out, line)
        del f
    print(f"    {time.time() - begin:.0f} s, kernels", flush=True)
    for kind, lg, dtype in cases:
        if (dtype == FP32 and lg % 4) or (lg % 2 and lg > 20) or agreed(time.time() - begin) > args.seconds + 60:
            continue
        f = collective(kind, 1 << lg, dtype)
        both = of_ranks(kernels_of(f, 6))
        if rank == 0:
            put(out, {"kernels": kind, "bytes": 1 << lg, "dtype": str(dtype)[6:], "ranks": both})
        del f
    if rank == 0:
        print(f"    {time.time() - begin:.0f} s", flush=True)


# --- beside compute ----------------------------------------------------------------------------------------------------
def overlap(rank, args):
    """A collective on a stream of its own beside work that began just before it: both alone, the span together, each one's end."""
    out = f"{args.out}/overlap.jsonl"
    begin = time.time()
    side = torch.cuda.Stream()
    square = {n: torch.randn(n, n, device="cuda", dtype=BF16) for n in (1024, 2048, 4096, 8192)}
    vectors = {m: torch.ones(m << 18, device="cuda", dtype=FP32) for m in (64, 512)}
    works = [(f"{c} mm {n}", n, lambda n=n, c=c: [square[n] @ square[n] for _ in range(c)]) for n, c in ((8192, 4), (8192, 1), (4096, 4), (4096, 16), (2048, 32), (1024, 60))]
    works += [(f"{c} add {m} MiB", m, lambda m=m, c=c: [vectors[m].add_(1.0) for _ in range(c)]) for m, c in ((512, 4), (64, 32))]
    q = torch.randn(8, 16, 2048, 64, device="cuda", dtype=BF16)
    works.append(("4 attention", 0, lambda: [F.scaled_dot_product_attention(q, q, q, is_causal=True) for _ in range(4)]))

    def span(first, second):
        """(start to end of all, to the end of the first's, to the end of the second's)"""
        got = []
        for i in range(9):
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            a, b, c = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            torch.cuda._sleep(400000)  # so that the host is ahead of both streams
            a.record()
            side.wait_stream(torch.cuda.current_stream())
            if first:
                first()
                b.record()
            if second:
                with torch.cuda.stream(side):
                    second()
                    c.record()
            torch.cuda.synchronize()
            if i >= 2:
                ends = [a.elapsed_time(e) * 1000 for e, used in ((b, first), (c, second)) if used]
                got.append([max(ends)] + ends)
        return [round(statistics.median(x), 2) for x in zip(*got)]
    for kind in ("all_reduce", "all_gather", "reduce_scatter"):
        for mib in (4, 32, 256):
            f = collective(kind, mib << 20, BF16)
            for _ in range(3):
                f()
            alone = span(None, f)[0]
            for name, _, g in works:
                if not re.search(args.only, f"{kind}/{mib}/{name}") or agreed(time.time() - begin) > args.seconds:
                    continue
                line = {"collective": kind, "mib": mib, "beside": name, "collective_us": alone, "work_us": span(g, None)[0]}
                line["together_us"], line["work_end_us"], line["collective_end_us"] = span(g, f)
                line["together_rank1_us"] = of_ranks(line["together_us"])[1]
                if rank == 0:
                    put(out, line)
            del f
    if rank == 0:
        print(f"    {time.time() - begin:.0f} s", flush=True)


# --- steps -------------------------------------------------------------------------------------------------------------
class RowParallel(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, x):
        y = self.linear(x)
        dist.all_reduce(y)
        return y


class ToRanks(torch.autograd.Function):
    """Forward nothing, backward an all-reduce: before a product whose columns are spread."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g


class FromRanks(torch.autograd.Function):
    """Forward an all-reduce, backward nothing: after a product whose rows are spread."""

    @staticmethod
    def forward(ctx, x):
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class SpreadIn(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, x):
        return self.linear(ToRanks.apply(x))


class SpreadOut(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, x):
        return FromRanks.apply(F.linear(x, self.linear.weight)) + self.linear.bias


class SpreadLlamaBlock(N.LlamaBlock):
    """Half of the heads and half of the MLP; the sums over ranks behind wo and w2."""

    def __init__(self, d, heads, kv_heads, ff, cache=0, batch=1, library=False):
        super().__init__(d, heads, kv_heads, ff, cache, batch, library)
        hd = d // heads
        self.heads, self.kv_heads, self.hd = heads // RANKS, kv_heads // RANKS, hd
        self.wq = nn.Linear(d, self.heads * hd, bias=False)
        self.wk, self.wv = (nn.Linear(d, self.kv_heads * hd, bias=False) for _ in range(2))
        self.wo = RowParallel(nn.Linear(self.heads * hd, d, bias=False))
        self.w1, self.w3 = (nn.Linear(d, ff // RANKS, bias=False) for _ in range(2))
        self.w2 = RowParallel(nn.Linear(ff // RANKS, d, bias=False))
        if cache:
            self.register_buffer("kc", torch.zeros(batch, self.kv_heads, cache, hd), False)
            self.register_buffer("vc", torch.zeros(batch, self.kv_heads, cache, hd), False)

    def forward(self, x, cos, sin, pos=None, mask=None):
        b, t, _ = x.shape
        y = self.n1(x)
        q, k, v = (w(y).view(b, t, h, self.hd) for w, h in ((self.wq, self.heads), (self.wk, self.kv_heads), (self.wv, self.kv_heads)))
        q, k, v = N.hand_rope(q, cos, sin).transpose(1, 2), N.hand_rope(k, cos, sin).transpose(1, 2), v.transpose(1, 2)
        gqa = self.heads != self.kv_heads
        if pos is None:
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa)
        else:
            self.kc[:, :, pos] = k
            self.vc[:, :, pos] = v
            o = F.scaled_dot_product_attention(q, self.kc, self.vc, attn_mask=mask, enable_gqa=gqa)
        x = x + self.wo(o.transpose(1, 2).reshape(b, t, -1))
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


def spread_llama(layers, d, heads, kv_heads, ff, vocab, cache=0, batch=1):
    kept, N.LlamaBlock = N.LlamaBlock, SpreadLlamaBlock
    try:
        return N.Llama(layers, d, heads, kv_heads, ff, vocab, cache, batch)
    finally:
        N.LlamaBlock = kept


def spread_gpt(layers, d, heads, vocab):
    """Megatron's split of a GPT: products of qkv and up by columns, of proj and down by rows; embedding and head whole."""
    model = N.Gpt(layers, d, heads, vocab)
    for b in model.blocks:
        b.heads = heads // RANKS
        b.qkv, b.up = SpreadIn(nn.Linear(d, 3 * d // RANKS)), SpreadIn(nn.Linear(d, 4 * d // RANKS))
        b.proj, b.down = SpreadOut(nn.Linear(d // RANKS, d)), SpreadOut(nn.Linear(4 * d // RANKS, d))
        b.forward = spread_gpt_block.__get__(b)
    return model


def spread_gpt_block(self, x, pos=None, mask=None):
    b, t, _ = x.shape
    y = self.qkv(self.ln1(x))
    w = y.shape[-1] // 3
    q, k, v = (z.view(b, t, self.heads, w // self.heads).transpose(1, 2) for z in y.split(w, 2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, w))
    return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Row:
    def __init__(self, name, make, sets):
        self.name, self.make, self.sets = name, make, sets


ROWS = []


def training(name, kind, precision="autocast", accumulation=1, compiled=None, reshard=True, bucket=None):
    """A row of training_networks.py by name: single (no communication), ddp or fsdp (fully_shard on each block and the root)."""
    row = next(r for r in training_networks.ROWS if r.name == name)

    def make(rank):
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        torch.set_default_dtype(BF16 if precision == "pure" else FP32)
        with torch.device("cuda"):
            inner, inputs, labels = row.build()
        torch.set_default_dtype(FP32)
        model = training_networks.Loss(inner).train()
        if compiled == "before":
            model = torch.compile(model)
        if kind == "ddp":
            model = nn.parallel.DistributedDataParallel(model, device_ids=[rank], **({"bucket_cap_mb": bucket} if bucket else {}))
        elif kind == "fsdp":
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
            policy = {"mp_policy": MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=FP32)} if precision == "policy" else {}
            for block in inner.blocks:
                if compiled == "blocks":
                    block.compile()
                fully_shard(block, reshard_after_forward=reshard, **policy)
            fully_shard(model, **policy)
        if compiled == "after":
            model = torch.compile(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            for i in range(accumulation):
                last = i + 1 == accumulation
                if kind == "ddp":
                    model.require_backward_grad_sync = last
                elif kind == "fsdp" and accumulation > 1:
                    model.set_requires_gradient_sync(last)
                with torch.autocast("cuda", BF16, enabled=precision == "autocast"):
                    loss = model(inputs, labels)
                loss.backward()
            optimizer.step()
        return step
    tail = "".join((f"_{kind}", "_policy" if precision == "policy" else "", f"_accumulated{accumulation}" if accumulation > 1 else "",
                    f"_compiled_{compiled}" if compiled else "", "" if reshard else "_kept", f"_bucket{bucket}" if bucket else ""))
    parallel = {"single": "", "ddp": "{data: 2, kind: ddp}", "fsdp": "{data: 2, kind: fsdp}"}[kind]
    ROWS.append(Row(name + tail, make, row.sets() + ([f"workload.parallel={parallel}"] if parallel else [])))


def decode(name, build, b, s, modes=("eager", "cudagraph"), vocab=128256, tensor=2):
    for mode in modes:
        def make(rank, mode=mode):
            torch.manual_seed(0)
            torch.set_default_dtype(BF16)
            with torch.device("cuda"):
                model = build().eval()
                ids = torch.randint(0, vocab, (b, 1) if s else (b[0], b[1]))
                pos = torch.tensor([s - 1]) if s else None
            torch.set_default_dtype(FP32)
            for p in model.parameters():
                p.requires_grad_(False)

            def step():
                with torch.no_grad():
                    model(ids, pos)
            return step if mode == "eager" else captured(step)
        ROWS.append(Row(f"{name}_{mode}", make, [f"workload.parallel={{tensor: {tensor}}}"] if tensor > 1 else []))


def tensor_training(name, layers, d, heads, vocab, b, t):
    def make(rank):
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        with torch.device("cuda"):
            model = training_networks.Loss(spread_gpt(layers, d, heads, vocab)).train()
            inputs, labels = (N.tokens(b, t, vocab),), N.tokens(b, t, vocab)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", BF16):
                loss = model(inputs, labels)
            loss.backward()
            optimizer.step()
        return step
    ROWS.append(Row(name, make, ["workload.parallel={tensor: 2}"]))


def pipeline(name, layers, d, heads, vocab, b, t, microbatches, schedule):
    """A GPT in two stages by torch.distributed.pipelining: embedding and half of the blocks, the other half and the head."""
    def make(rank):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        with torch.device("cuda"):
            stage = GptStage(N.Gpt(layers, d, heads, vocab), rank).train()
            ids, labels = N.tokens(b, t, vocab), N.tokens(b, t, vocab)
        plan = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[schedule](
            PipelineStage(stage, rank, RANKS, torch.device("cuda", rank)), microbatches,
            loss_fn=lambda y, labels: F.cross_entropy(y.view(-1, y.shape[-1]), labels.view(-1)))
        optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-4, fused=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            if rank == 0:
                plan.step(ids)
            else:
                plan.step(target=labels)
            optimizer.step()
        return step
    ROWS.append(Row(name, make, [f"workload.parallel={{pipeline: 2, microbatches: {microbatches}, schedule: {schedule}}}"]))


class GptStage(nn.Module):
    """Autocast inside, so that what travels between stages is fp32 as the residual stream is."""

    def __init__(self, whole, rank):
        super().__init__()
        half = len(whole.blocks) // RANKS
        self.first = rank == 0
        self.blocks = nn.ModuleList(list(whole.blocks)[rank * half:(rank + 1) * half])
        if self.first:
            self.wte, self.wpe = whole.wte, whole.wpe
        else:
            self.lnf, self.head = whole.lnf, whole.head

    def forward(self, x):
        with torch.autocast("cuda", BF16):
            if self.first:
                x = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                x = block(x)
            return x if self.first else self.head(self.lnf(x))


class SpreadExperts(nn.Module):
    """Four of eight experts on each rank, routed evenly: all-to-all, grouped products, all-to-all. Sizes are known, so nothing waits."""

    def __init__(self, d, ff, experts, top_k):
        super().__init__()
        self.top_k, self.experts, self.here = top_k, experts, experts // RANKS
        self.router = nn.Linear(d, experts, bias=False)
        self.w1, self.w3 = (nn.Parameter(torch.randn(self.here, d, ff) * 0.02) for _ in range(2))
        self.w2 = nn.Parameter(torch.randn(self.here, ff, d) * 0.02)

    def forward(self, x):
        n, d = x.shape
        weights, chosen = torch.topk(F.softmax(self.router(x), -1, dtype=FP32), self.top_k, -1)
        order = chosen.flatten().argsort()
        sent = x[order // self.top_k]
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        offsets = torch.arange(1, self.here + 1, device=x.device, dtype=torch.int32) * (received.shape[0] // self.here)
        y = F.silu(torch._grouped_mm(received, self.w1, offs=offsets)) * torch._grouped_mm(received, self.w3, offs=offsets)
        y = torch._grouped_mm(y, self.w2, offs=offsets)
        back = torch.empty_like(y)
        dist.all_to_all_single(back, y)
        out = torch.zeros_like(x)
        return out.index_add_(0, order // self.top_k, back * weights.flatten()[order, None].to(back.dtype))


class ExpertStack(nn.Module):
    def __init__(self, layers, d, ff, experts, top_k):
        super().__init__()
        self.blocks = nn.ModuleList(SpreadExperts(d, ff, experts, top_k) for _ in range(layers))

    def forward(self, x, _=None):
        for block in self.blocks:
            x = x + block(x)
        return x


def experts(name, layers, d, ff, n, modes=("eager", "cudagraph")):
    for mode in modes:
        def make(rank, mode=mode):
            torch.manual_seed(rank)
            torch.set_default_dtype(BF16)
            with torch.device("cuda"):
                model, x = ExpertStack(layers, d, ff, 8, 2).eval(), torch.randn(n, d)
            torch.set_default_dtype(FP32)
            for p in model.parameters():
                p.requires_grad_(False)

            def step():
                with torch.no_grad():
                    model(x)
            return step if mode == "eager" else captured(step)
        ROWS.append(Row(f"{name}_{mode}", make, ["workload.parallel={expert: 2}"]))


def captured(step):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def llama_training(name, layers, d, heads, kv_heads, ff, b, t, kind, policy=True, vocab=128256, reshard=True):
    """A larger Llama (library norms and rotary embedding) with DDP or FSDP2; policy: bf16 parameters and fp32 reduction, no autocast."""
    def make(rank):
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        with torch.device("cuda"):
            inner = N.Llama(layers, d, heads, kv_heads, ff, vocab, library=True)
            model, inputs, labels = training_networks.Loss(inner).train(), (N.tokens(b, t, vocab),), N.tokens(b, t, vocab)
        if kind == "ddp":
            model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
        else:
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
            how = {"mp_policy": MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=FP32)} if policy else {}
            for block in inner.blocks:
                fully_shard(block, reshard_after_forward=reshard, **how)
            fully_shard(model, **how)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", BF16, enabled=kind == "ddp" or not policy):
                loss = model(inputs, labels)
            loss.backward()
            optimizer.step()
        return step
    ROWS.append(Row(name, make, ["workload.network=llama", f"workload.batch={b}", f"workload.sequence={t}", "workload.parameters.norm=library",
                                 "workload.parameters.rope=library", f"workload.parallel={{data: 2, kind: {kind}}}"]))


def llama1b(cache, batch, tensor):
    return lambda: (spread_llama if tensor else N.Llama)(16, 2048, 32, 8, 8192, 128256, cache, batch)


def llama8b(cache, batch, tensor):
    return lambda: (spread_llama if tensor else N.Llama)(32, 4096, 32, 8, 14336, 128256, cache, batch)


training("gpt2_B16_T1024", "ddp")
training("gpt2_B16_T1024", "fsdp")
decode("llama1b_decode_B1_S2048_tp2", llama1b(2048, 1, True), 1, 2048)
training("gpt2_B16_T1024", "single")
training("llama_160m_B4_T1024", "fsdp")
training("llama_160m_B4_T1024", "ddp")
training("gpt2_B2_T256", "ddp")
training("gpt2_B2_T256", "fsdp")
training("gpt2_B2_T256", "single")
decode("llama1b_decode_B8_S1024_tp2", llama1b(1024, 8, True), 8, 1024)
decode("llama1b_decode_B1_S2048", llama1b(2048, 1, False), 1, 2048, tensor=1)
decode("llama8b_decode_B1_S1024_tp2", llama8b(1024, 1, True), 1, 1024)
decode("llama1b_prefill_B4_T1024_tp2", llama1b(0, 1, True), (4, 1024), 0)
training("vit_b16_B64", "fsdp")
training("resnet50_B64", "ddp")
tensor_training("gpt2_medium_train_B8_T1024_tp2", 24, 1024, 16, 50304, 8, 1024)
training("gpt2_B16_T1024", "fsdp", precision="policy")
training("encoder_B16_T512", "fsdp")
training("encoder_B16_T512", "ddp")
training("gpt2_B16_T1024", "fsdp", reshard=False)
training("gpt2_B16_T1024", "ddp", accumulation=4)
training("gpt2_B16_T1024", "ddp", bucket=100)
training("vit_b16_B8", "ddp")
training("gpt2_B16_T1024", "ddp", compiled="before")
training("gpt2_B16_T1024", "ddp", compiled="after")
training("gpt2_B16_T1024", "fsdp", compiled="blocks")
training("llama_160m_B1_T128", "fsdp")
llama_training("llama_1b_train_B2_T2048_fsdp_policy", 16, 2048, 32, 8, 8192, 2, 2048, "fsdp")
llama_training("llama_1b_train_B2_T2048_fsdp", 16, 2048, 32, 8, 8192, 2, 2048, "fsdp", policy=False)
llama_training("llama_1b_train_B2_T2048_ddp", 16, 2048, 32, 8, 8192, 2, 2048, "ddp")
llama_training("llama_3b_train_B1_T2048_fsdp_policy", 28, 3072, 24, 8, 8192, 1, 2048, "fsdp")
llama_training("llama_1b_train_B2_T2048_fsdp_policy_kept", 16, 2048, 32, 8, 8192, 2, 2048, "fsdp", reshard=False)
pipeline("gpt2_medium_B16_T1024_pp2_gpipe4", 24, 1024, 16, 50304, 16, 1024, 4, "gpipe")
pipeline("gpt2_medium_B16_T1024_pp2_1f1b8", 24, 1024, 16, 50304, 16, 1024, 8, "1f1b")
experts("moe_N4096_ep2", 4, 2048, 7168, 4096)
tensor_training("gpt2_xl_train_B4_T1024_tp2", 24, 1600, 20, 50304, 4, 1024)
training("resnet50_B16", "ddp")
training("gpt2_pure_B8_T1024", "ddp", precision="pure")
training("gpt2_clipped_foreach_B8_T512", "single")


def step_groups(step, per, quick):
    """Milliseconds of a step: groups of `per` steps between synchronisations of the device, as many on both ranks."""
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    one = agreed((time.perf_counter() - begin) / 4)
    groups = 4 if quick else max(8, min(40, int(1.2 / (one * per))))
    out = []
    for _ in range(groups):
        begin = time.perf_counter()
        for _ in range(per):
            step()
        torch.cuda.synchronize()
        out.append((time.perf_counter() - begin) / per * 1e3)
    return out


COLUMNS = ["stream", "ts_us", "us", "kind", "kernel", "grid", "block", "launched_by", "within", "host_ts_us", "shapes"]


def operations(events, step="step:1"):
    """GPU operations that one step launched, by start: stream, start, duration, what launched them (innermost, outermost) and when."""
    mark = next(e for e in events if e.get("cat") == "user_annotation" and e["name"] == step)
    first, last = mark["ts"], mark["ts"] + mark["dur"]
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
             and first <= e["ts"] <= last}
    host = {}
    for e in events:
        if e.get("cat") in ("cpu_op", "user_annotation") and first <= e["ts"] <= last and "dur" in e:
            host.setdefault(e["tid"], []).append(e)
    around = {}
    by_thread = {}
    for c in calls.values():
        by_thread.setdefault(c["tid"], []).append(c)
    for tid, cs in by_thread.items():
        ops, stack, i = sorted(host.get(tid, []), key=lambda e: (e["ts"], -e["dur"])), [], 0
        for c in sorted(cs, key=lambda e: e["ts"]):
            while i < len(ops) and ops[i]["ts"] <= c["ts"]:
                while stack and stack[-1]["ts"] + stack[-1]["dur"] <= ops[i]["ts"]:
                    stack.pop()
                stack.append(ops[i])
                i += 1
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= c["ts"]:
                stack.pop()
            around[c["args"]["correlation"]] = [e for e in stack if not e["name"].startswith("step:")]
    lines = []
    for e in events:
        c = calls.get(e.get("args", {}).get("correlation")) if e.get("cat") in timing.GPU_CATEGORIES else None
        if c:
            names = around.get(c["args"]["correlation"], [])
            lines.append([e["args"].get("stream"), round(e["ts"] - first, 3), round(e["dur"], 3), timing.GPU_CATEGORIES[e["cat"]],
                          timing.short_kernel(e["name"]), timing.dims(e["args"].get("grid")), timing.dims(e["args"].get("block")),
                          names[-1]["name"][:70] if names else "", names[0]["name"][:70] if names else "", round(c["ts"] - first, 3),
                          timing.shape_text(names[-1].get("args", {}))[:80] if names else ""])
    return sorted(lines, key=lambda x: (x[1], x[0]))


def one_row(row, rank, args):
    gc.collect()
    begin = time.time()
    step = row.make(rank)
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    ready = time.time() - begin
    torch.cuda.reset_peak_memory_stats()
    result = {"row": row.name, "sets": row.sets, "resident_bytes": torch.cuda.memory_allocated()}
    step()
    torch.cuda.synchronize()
    result["peak_bytes"] = torch.cuda.max_memory_allocated()
    best = None
    for _ in range(1 if args.quick else 3):
        dist.barrier()
        loop = agreed(timing.python_loop_us())
        times = step_groups(step, 3, args.quick)
        loop = max(loop, agreed(timing.python_loop_us()))
        got = {"python_loop_us": loop, "step_ms": timing.summary(times, 5), "rank_step_ms": of_ranks(round(statistics.median(times), 5))}
        if best is None or loop < best["python_loop_us"]:
            best = got
        if loop < args.quiet_us:
            break
    result.update(best)
    times = []  # host alone: from the call to its return, both ranks starting on empty queues
    for _ in range(8):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e6)
    torch.cuda.synchronize()
    result["host_us"] = timing.summary(times, 1)
    step_us = agreed(result["step_ms"]["median"]) * 1e3
    events = timing.trace_steps(step, step_us, shapes=True)
    result.update(timing.counts(events))
    result["busy_ranks_us"] = of_ranks(result["gpu_busy_us"])
    with open(f"{args.out}/ops/{row.name}.{rank}.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(operations(events))
    if rank == 0:
        put(f"{args.out}/steps.jsonl", result)
        print(f"{row.name:40s} {result['step_ms']['median']:9.4f} ms busy {result['gpu_busy_us'] / 1e3:9.4f} host {result['host_us']['median'] / 1e3:8.3f} "
              f"ops {result['gpu_ops']:.0f} peak {result['peak_bytes'] / 1e9:.3f} GB loop {result['python_loop_us']:.0f} ready {ready:.1f} took {time.time() - begin:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("collectives", "overlap", "steps"))
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no case after this time")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to try the script, not to publish")
    args = parser.parse_args()
    os.makedirs(f"{args.out}/ops", exist_ok=True)
    begin = time.time()
    if args.part != "steps":
        on_two(lambda rank: globals()[args.part](rank, args), args.seconds + 120)
        return
    try:
        import torchvision
    except Exception as error:
        print("no torchvision:", error)
    args.quiet_us = 1.25 * min(timing.python_loop_us() for _ in range(50))
    gc.freeze()
    for row in ROWS:
        if re.search(args.only, row.name) and time.time() - begin < args.seconds:
            if not on_two(lambda rank: one_row(row, rank, args), 90):
                put(f"{args.out}/steps.jsonl", {"row": row.name, "error": "a rank failed or took too long"})
                print("ERR", row.name, flush=True)


if __name__ == "__main__":
    main()
