#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes CSV tables of what training_host.py, after_profiler.py, graph_gaps.py and chains.py measured. Needs no GPU.

usage: training_tables.py TABLES OUT [OUT...]   (TABLES: the folder to write to, OUT: what the programs were given)
"""
import csv
import json
import os
import sys


def lines(folders, name):
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            for line in open(path):
                row = json.loads(line)
                if "error" not in row:
                    yield row


def write(target, name, columns, rows):
    rows = list(rows)
    if not rows:
        return
    with open(os.path.join(target, name), "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(columns)
        out.writerows(rows)


def spread(value):
    return [value["median"], value["p10"], value["p90"]]


def three(name):
    return [f"{name}_us", f"{name}_p10", f"{name}_p90"]


def phases(row):
    return sum((spread(row[k]) for k in ("forward", "backward", "zero_grad", "optimizer") if isinstance(row[k], dict)), [])


PHASES = sum((three(k) for k in ("forward", "backward", "zero_grad", "optimizer")), [])


def main(target, folders):
    write(target, "training_phases.csv", ["network", "parameters", "batch", "sequence", "precision", "loop", "tensors", *three("no_grad"), *PHASES, "python_loop_us"],
          ([r["network"], ";".join(f"{k}={v}" for k, v in r["parameters"].items()), r["batch"], r["sequence"], r["precision"], r["loop"], r["tensors"],
            *spread(r["no_grad"]), *phases(r), r["python_loop_us"]] for r in lines(folders, "training_phases.jsonl")))
    write(target, "training_process.csv", ["after", *three("step"), *PHASES, "python_loop_us"],
          ([r["after"], *(round(1e3 * v, 1) for v in spread(r["step_ms"])), *phases(r["phases"]), r["phases"]["python_loop_us"]]
           for r in lines(folders, "training_process.jsonl")))
    write(target, "after_profiler.csv", ["when", "what", "host_us", "wall_us", "period_us", "step_us", "step_p10", "step_p90", "python_loop_us"],
          ([r["when"], r["call"], r["host_us"], r.get("wall_us", ""), r.get("period_us", ""), "", "", "", r["python_loop_us"]] if "call" in r else
           [r["when"], r["step"], r["host_us"]["median"], "", "", *(round(1e3 * v, 1) for v in spread(r["step_ms"])), r["python_loop_us"]]
           for r in lines(folders, "after_profiler.jsonl")))
    write(target, "checkpoint_host.csv", ["op", "ops", "blocks", "autocast", "how", *three("forward"), *three("backward"), "python_loop_us"],
          ([r["kind"], r["ops"], r["blocks"], r["autocast"], r["how"], *spread(r["forward_us"]), *spread(r["backward_us"]), r["python_loop_us"]]
           for r in lines(folders, "checkpoint_host.jsonl")))
    write(target, "alu_chains.csv", ["function", "length", "values", "us", "grid", "block"],
          sorted([r["function"], r["length"], r["values"], r["us"], r["grid"], r["block"]] for r in lines(folders, "alu_chains.jsonl")))
    write(target, "graph_chains.csv", ["chain", "period_us", "node", "kind", "kernel", "grid", "us", "gap_before_us"],
          ([r["chain"], r["period_us"], i, n["kind"], n["kernel"][:60], n["grid"], n["us"], n["gap_before_us"]]
           for r in lines(folders, "graph_chains.jsonl") for i, n in enumerate(r["nodes"])))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
