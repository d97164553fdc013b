#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tables of what held_out.py measured, for `gpusim validate` (steps) and `gpusim calibrate --check` (kernels).

usage: held_out_tables.py RAW TABLES
"""
import csv
import os
import sys

import tables

COLUMNS = ["case", "scenario", "variant", "set", "machine", "steps", "step_us", "step_us_low", "step_us_high", "busy_us",
           "gpu_ops", "flops", "peak_bytes", "note"]
HEADER = """# Networks and sizes that nothing was fitted to{what}: gpusim validate validation/h200/held-out/{file}
# Rows were written down before anything was measured, and measured after the predictions' last change (validation/measure/held_out.py;
# one H200, 2026-12-01, PyTorch 2.11). The row that sets the host's speed is an old one.
{limits}
# calibrate: {machine} on {first}
"""


def times(row):
    t = row["step_ms"]
    return [t["per"], *(f"{1e3 * t[k]:.2f}" for k in ("median", "p10", "p90")), row["gpu_busy_us"], f"{row['gpu_ops']:.0f}"]


def settings(parameters):
    return [f"workload.parameters.{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in parameters.items()]


def step_row(row):
    eager = row["mode"] == "eager"
    return [f"{row['workload']}/{row['mode']}", "../network.yaml", row["mode"], ";".join([*row["sets"], "workload.dtype=bf16"]), "run6",
            *times(row), row.get("flops") or "" if eager else "", row["peak_bytes"] if eager else "", ""]


def compiled_row(row):
    sets = [f"workload.network={row['network']}", f"workload.batch={row['batch']}", f"workload.sequence={row['sequence']}",
            f"workload.dtype={row['dtype']}", f"workload.step={row['step']}", *settings(row["parameters"])]
    if row["mode"] != "default":
        sets.append(f"variants.compiled.mode={row['mode']}")
    # What a mode's CUDA graphs hold is not among the allocator's figures.
    peak = row["peak_bytes"] if row["mode"] == "default" else ""
    return [f"{row['row']}/{row['mode']}", "../network.yaml", "compiled", ";".join(sets), "run6", *times(row), "", peak, ""]


def training_row(row):
    sets = list(row["sets"])
    inference = "workload.step=inference" in sets  # The step that sets the host's speed.
    if inference:
        sets.remove("workload.step=inference")
    if row["mode"] == "reduce-overhead":
        sets.append("variants.compiled.mode=reduce-overhead")
    peak = "" if row["mode"] == "reduce-overhead" or inference else row["peak_bytes"]
    return [f"{row['row']}/{row['mode']}", "../network.yaml" if inference else "../training.yaml",
            "eager" if row["mode"] == "eager" else "compiled", ";".join(sets), "run6", *times(row), row.get("flops") or "", peak, ""]


LIMITS = {
    "steps": "# limit: device-bound mean=6% worst=20%\n# limit: CUDA graph mean=6% worst=20%\n# limit: host-bound mean=30%",
    "compiled": "# limit: device-bound mean=8% worst=25%\n# limit: host-bound mean=30%",
    "training": "# limit: device-bound mean=8% worst=25%\n# limit: host-bound mean=40%",
}


def table(raw, out, source, name, what, make):
    rows = [r for r in tables.lines(f"{raw}/{source}") if "mode" in r]
    for r in rows:
        if "error" in r:
            print("left out:", r, file=sys.stderr)
    made = [make(r) for r in rows if "error" not in r]
    if not made:
        return
    with open(f"{out}/{name}.csv", "w", newline="") as file:
        file.write(HEADER.format(what=what, file=f"{name}.csv", limits=LIMITS[name], machine=made[0][4], first=made[0][0]))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(made)
    print(f"{out}/{name}.csv", len(made), "rows")


def main(raw, out):
    os.makedirs(out, exist_ok=True)
    table(raw, out, "steps.jsonl", "steps", ", eager and as one CUDA graph", step_row)
    table(raw, out, "compiled_steps.jsonl", "compiled", ", compiled", compiled_row)
    table(raw, out, "training_steps.jsonl", "training", ", training", training_row)
    tables.kernel_cases([raw], out, table="kernels.csv")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
