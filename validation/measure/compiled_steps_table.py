#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table that `gpusim validate` reads of what compiled.py measured.

usage: compiled_steps_table.py compiled_steps.csv [earlier-steps.csv] > compiled.csv

Of several runs of a row the one is taken that compiled_tables.py marked as best. `earlier-steps.csv`: the table of an
earlier session on another machine (columns workload, mode, step_ms, ...); its inference rows that were compiled are added.
"""
import csv
import re
import sys

COLUMNS = ["case", "scenario", "variant", "set", "machine", "steps", "step_us", "step_us_low", "step_us_high", "busy_us",
           "gpu_ops", "flops", "peak_bytes", "note"]
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
EARLIER = {
    "fma_relu_4096": "workload.network=fma_relu;workload.dtype=fp16",
    "hand_ln_gelu_16384x4096": "workload.network=layer_norm_gelu;workload.batch=16;workload.sequence=1024",
    "builtin_ln_gelu_16384x4096":
        "workload.network=layer_norm_gelu;workload.parameters.form=built_in;workload.batch=16;workload.sequence=1024",
    "seed_decoder_B4_T1024": "workload.network=seed_decoder;workload.batch=4;workload.sequence=1024",
    "seed_decoder_B1_T16": "workload.network=seed_decoder;workload.batch=1;workload.sequence=16",
    "llama_160m_T128_0break": "workload.network=llama_160m;workload.batch=1;workload.sequence=128",
}
EARLIER.update({f"cos_chain_{k}": f"workload.network=cos_chain;workload.parameters.length={k};workload.dtype=fp32"
                for k in (1, 2, 4, 8, 16, 32, 64)})


def microseconds(row, key):
    return f"{1e3 * float(row[key]):.2f}"


def main(path, earlier=None):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for row in csv.DictReader(open(path)):
        if row["best"] != "1":
            continue
        sets = [f"workload.network={row['network']}", f"workload.batch={row['batch']}",
                f"workload.sequence={row['sequence']}", f"workload.dtype={row['dtype']}", f"workload.step={row['step']}"]
        sets += [f"workload.parameters.{p}" for p in row["parameters"].split(";") if p]
        if row["mode"] != "default":
            sets.append(f"variants.compiled.mode={row['mode']}")
        # What a mode's CUDA graphs hold is not among the allocator's figures.
        peak = row["peak_bytes"] if row["mode"] == "default" else ""
        out.writerow([f"{row['row']}/{row['mode']}", "network.yaml", "compiled", ";".join(sets), "run" + row["run"],
                      row["steps_per_group"], microseconds(row, "step_ms"), microseconds(row, "step_ms_p10"),
                      microseconds(row, "step_ms_p90"), row["gpu_busy_us"], f"{float(row['gpu_ops']):.0f}", "", peak, row["note"]])
    for row in csv.DictReader(open(earlier)) if earlier else ():
        if row["mode"] not in MODES or "train" in row["workload"]:
            continue
        breaks = re.fullmatch(r"llama_160m_T128_(unrolled_)?(\d+)(break|item)", row["workload"])
        if breaks and breaks[2] != "0":
            scenario, variant = "breaks.yaml", f"{'unrolled' if breaks[1] else 'loop'}_{breaks[2]}{breaks[3]}"
            sets = []
        else:
            scenario, variant = "network.yaml", "compiled"
            sets = [EARLIER[row["workload"]]]
        if row["mode"] != "default":
            sets.append(f"variants.{variant}.mode={row['mode']}")
        # Its allocator's figures include what the script held besides.
        out.writerow([f"earlier/{row['workload']}/{row['mode']}", scenario, variant, ";".join(sets), "earlier", 5,
                      microseconds(row, "step_ms"), microseconds(row, "step_ms_p10"), microseconds(row, "step_ms_p90"),
                      row["gpu_busy_us"], f"{float(row['gpu_ops']):.0f}", "", "", ""])


if __name__ == "__main__":
    main(*sys.argv[1:])
