# SPDX-License-Identifier: Apache-2.0
"""Tables of validation/h200x2 from what two_gpus.py found.

usage: two_gpus_tables.py FOUND TABLES [--earlier twogpu.json]

collectives.csv: a row for each size. kernel_us: of six profiled calls without the first, the shorter of the two ranks' kernels (the rank
that comes last does not wait), median of the three shortest; only of kinds in which every rank needs all others (a sender may be done long
before the data is).  graph_us, eager_us: periods. blocks: of the kernel.
"""
import argparse
import json
import os
import statistics

SHORT = {"bfloat16": "bf16", "float32": "fp32"}
LIMITS = ["# limit: kernel median=10% worst=20%", "# limit: CUDA graph median=10% worst=25%", "# limit: eager median=10% worst=60%"]


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def kernels(rows):
    found = {}
    for row in rows:
        if "kernels" not in row:
            continue
        first, second = row["ranks"]
        shorter = sorted(min(a[1], b[1]) for a, b in zip(first[1:], second[1:]))
        found[row["kernels"], row["bytes"], row["dtype"]] = statistics.median(shorter[:3]), int(first[0][2].split("x")[0])
    return found


def collectives(found, earlier):
    rows = lines(os.path.join(found, "collectives.jsonl"))
    profiled = kernels(rows)
    out = []
    for row in rows:
        if "collective" not in row or row["collective"] == "exchange":
            continue
        us, blocks = profiled.get((row["collective"], row["bytes"], row["dtype"]), ("", ""))
        if row["collective"] in ("broadcast", "all_to_all", "send_receive"):
            us = ""
        out.append([row["collective"], row["bytes"], SHORT[row["dtype"]], 2, "nvlink4", row["eager_us"], row["graph_us"],
                    us and round(us, 3), blocks, "evening"])
    if earlier:
        for key, us in json.load(open(earlier))["collectives_us"].items():
            kind, size = key.split("/")
            # Its sizes are those of the tensor that is passed in: of an all-gather the part of a rank.
            out.append([kind, int(size) * (2 if kind == "all_gather" else 1), "bf16", 2, "nvlink4", us, "", "", "", "earlier"])
    return out


# Blocks, threads, registers, shared memory, traffic and share of the issue slots of one kernel. Products: tiles of 256 x 128; an
# addition reads and writes its vector; attention has a block for each 128 queries of a head.
def product(n, tiles):
    return {"blocks": tiles, "threads": 384, "registers": 168, "shared_memory": "213188 B", "bytes": f"{6 * n * n} B", "arithmetic": 0.2, "memory_hidden": "true"}


def addition(mib):
    return {"blocks": (mib << 18) // 512, "threads": 128, "registers": 32, "shared_memory": "0 B", "bytes": f"{2 * mib} MiB", "arithmetic": 0, "memory_hidden": "false"}


WORK = {"mm 8192": product(8192, 2048), "mm 4096": product(4096, 512), "mm 2048": product(2048, 128),
        "add 512 MiB": addition(512), "add 64 MiB": addition(64),
        "attention": {"blocks": 2048, "threads": 384, "registers": 168, "shared_memory": "200000 B", "bytes": "134 MB", "arithmetic": 0.2, "memory_hidden": "true"}}


def settings(index, values):
    return [f"workload.kernels.{index}.{key}={value}" for key, value in values.items()]


def traffic(kind, mib):
    """MiB that a collective of two ranks reads and writes: models/cost/collectives.cpp."""
    return {"all_reduce": 4, "all_gather": 2.5, "reduce_scatter": 2.5}[kind] * mib


def overlaps(found, earlier):
    for row in lines(os.path.join(found, "overlap.jsonl")):
        count, name = row["beside"].split(" ", 1)
        if row["beside"] == "60 mm 1024":
            continue  # their launches take longer than the sleep that lets the host get ahead: the collective comes last
        work = dict(WORK[name], repeat=count, duration=f"{row['work_us'] / int(count):.3f} us")
        collective = {"duration": f"{row['collective_us']} us", "bytes": f"{traffic(row['collective'], row['mib'])} MiB"}
        both = sorted([row["together_us"], row["together_rank1_us"]])
        yield [f"{row['collective']} {row['mib']} MiB + {row['beside']}", "overlap_work_first.yaml",
               ";".join(settings(0, work) + settings(1, collective)), row["together_us"], *both]
    if earlier:
        us = json.load(open(earlier))["overlap_us"]
        work = dict(WORK["mm 8192"], repeat=4, duration=f"{us['4 gemm 8192'] / 4:.3f} us")
        collective = {"duration": f"{us['all_reduce 256 MiB']} us", "bytes": f"{traffic('all_reduce', 256)} MiB"}
        yield ["earlier: all_reduce 256 MiB + 4 mm 8192", "overlap_collective_first.yaml",
               ";".join(settings(1, work) + settings(0, collective)), us["both"], us["both"], us["both"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found")
    parser.add_argument("tables")
    parser.add_argument("--earlier")
    args = parser.parse_args()
    with open(os.path.join(args.tables, "collectives.csv"), "w") as file:
        print("# Collectives of two H200s over NVLink, NCCL 2.28.9, PyTorch 2.11, multicast off: gpusim validate validation/h200x2/collectives.csv", file=file)
        print("# Made by validation/measure/two_gpus_tables.py; bytes are those of the larger buffer of a rank. Two machines of one kind,", file=file)
        print("# 2026-11-30; the host of the earlier one takes longer for a call.", file=file)
        for line in LIMITS + ["# calibrate: earlier on all_reduce 64 KiB bf16 x2"]:
            print(line, file=file)
        print("collective,bytes,dtype,ranks,intra,eager_us,graph_us,kernel_us,blocks,machine", file=file)
        for row in collectives(args.found, args.earlier):
            print(*row, sep=",", file=file)
    with open(os.path.join(args.tables, "overlap.csv"), "w") as file:
        print("# Work and a collective beside it on two H200s: gpusim validate validation/h200x2/overlap.csv", file=file)
        print("# Made by validation/measure/two_gpus_tables.py. step_us: from the start of both to the end of both, rank 0; low and high: the ranks.", file=file)
        print("# limit: step mean=6% worst=12%", file=file)
        print("case,scenario,set,step_us,step_us_low,step_us_high", file=file)
        for row in overlaps(args.found, args.earlier):
            print(*row, sep=",", file=file)


if __name__ == "__main__":
    main()
