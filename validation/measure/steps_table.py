#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table that `gpusim validate` reads of what steps.py measured.

usage: steps_table.py steps-networks.csv > steps.csv

Of several runs of a row the one is taken that tables.py marked as best. Rows of networks that no file of
configs/networks describes are left out and named on standard error.
"""
import csv
import re
import sys

# How a measured network is called, and with which parameters, in configs/networks.
LIBRARY = "norm=library;rope=library"
NETWORKS = {
    "gpt2": ("gpt2", ""),
    "gpt2_unfused": ("gpt2", "attention=unfused"),
    "gpt2_decode": ("gpt2", ""),
    "llama8b": ("llama3_8b", ""),
    "llama8b_lib": ("llama3_8b", LIBRARY),
    "llama8b_decode": ("llama3_8b", ""),
    "llama8b_lib_decode": ("llama3_8b", LIBRARY + ";cache_write=index_copy"),
    "llama_160m": ("llama_160m", ""),
    "llama_160m_lib": ("llama_160m", LIBRARY),
    "encoder": ("encoder", ""),
    "vit_b16": ("vit", ""),
    "resnet50": ("resnet50", ""),
    "resnet50_nchw": ("resnet50", "channels_last=false"),
    "resnet50_fp16": ("resnet50", ""),
    "moe_grouped": ("moe_layers", ""),
    "moe_loop": ("moe_layers", "routing=loop"),
    "seed_decoder": ("seed_decoder", ""),
    "mlp": ("seed_mlp", ""),
    "hand_ln_gelu": ("layer_norm_gelu", ""),
    "ln_gelu": ("layer_norm_gelu", "form=built_in"),
    "fma_relu": ("fma_relu", "rows=4096;columns=4096"),
}
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
COLUMNS = ["case", "scenario", "variant", "set", "machine", "steps", "step_us", "step_us_low", "step_us_high", "busy_us",
           "gpu_ops", "flops", "peak_bytes", "note"]


def network_of(row):
    """The network's name: that of the row without its sizes; `network` alone may leave out a layout."""
    return re.sub(r"_(B\d+|N\d+|T\d+|S\d+)", "", row["workload"])


def main(path):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for row in csv.DictReader(open(path)):
        if row["best"] != "1":
            continue
        name = network_of(row)
        if name not in NETWORKS:
            print(f"left out: {row['workload']} ({name})", file=sys.stderr)
            continue
        network, parameters = NETWORKS[name]
        sets = [f"workload.network={network}", f"workload.batch={row['batch']}"]
        if int(row["context"]):
            sets += ["workload.step=decode", f"workload.sequence={row['context']}"]
        else:
            sets.append(f"workload.sequence={max(int(row['length']), 1)}")
        sets.append(f"workload.dtype={DTYPES[row['dtype']]}")
        sets += [f"workload.parameters.{p}" for p in parameters.split(";") if p]
        eager = row["mode"] == "eager"
        # A replay's allocator figures leave out the private pool, and torch counts no FLOPs in it.
        out.writerow([f"{row['workload']}/{row['mode']}", "network.yaml", row["mode"], ";".join(sets), "run" + row["run"],
                      row["steps_per_group"], f"{1e3 * float(row['step_ms']):.2f}", f"{1e3 * float(row['step_ms_p10']):.2f}",
                      f"{1e3 * float(row['step_ms_p90']):.2f}", row["gpu_busy_us"], row["gpu_ops"],
                      row["flops"] if eager and row["flops"] else "", row["peak_bytes"] if eager else "", row["note"]])


if __name__ == "__main__":
    main(sys.argv[1])
