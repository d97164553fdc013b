#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table that `gpusim validate` reads of what training_steps.py measured.

usage: training_table.py MACHINE=training_steps.jsonl ... > training-networks.csv
"""
import csv
import json
import sys

COLUMNS = ["case", "scenario", "variant", "set", "machine", "steps", "step_us", "step_us_low", "step_us_high", "busy_us",
           "gpu_ops", "flops", "peak_bytes", "note"]


def main(arguments):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for argument in arguments:
        machine, path = argument.split("=", 1)
        for line in open(path):
            row = json.loads(line)
            if "error" in row:
                print(f"left out: {row['row']}/{row['mode']}: {row['error']}", file=sys.stderr)
                continue
            sets = list(row["sets"])
            if row["mode"] == "reduce-overhead":
                sets.append("variants.compiled.mode=reduce-overhead")
            time = row["step_ms"]
            inference = "workload.step=inference" in sets
            if inference:  # The step that sets the host's speed.
                if row["mode"] != "eager":
                    continue
                sets.remove("workload.step=inference")
            # Replays have their activations in a pool of their own, which the allocator's peak leaves out.
            peak = "" if row["mode"] == "reduce-overhead" or inference else row["peak_bytes"]
            out.writerow([f"{row['row']}/{row['mode']}" if machine == arguments[0].split("=")[0] else f"{machine}/{row['row']}/{row['mode']}",
                          "network.yaml" if inference else "training.yaml", "eager" if row["mode"] == "eager" else "compiled", ";".join(sets),
                          machine, time["per"], f"{1e3 * time['median']:.2f}", f"{1e3 * time['p10']:.2f}", f"{1e3 * time['p90']:.2f}",
                          row["gpu_busy_us"], f"{row['gpu_ops']:g}", row.get("flops") or "", peak, ""])


if __name__ == "__main__":
    main(sys.argv[1:])
