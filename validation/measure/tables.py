# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of validation/ from what steps.py, host_ops.py, kernels.py and training_kernels.py wrote. Needs no PyTorch and no GPU.

usage: tables.py TABLES RAW [RAW ...]

Each RAW is the output of one run on one machine; they are numbered from 1 in the column "run".
"""
import argparse
import csv
import gzip
import json
import os

STREAM_GAP_US = 1.45  # between two operations of a stream, as measured on an H200: only for the class in the column "bound"


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def write(path, columns, rows):
    if not rows:
        return
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    print(path, len(rows), "rows")


def bound(r):
    """host: issuing the step takes longer than running it; device: the other way round; mixed: within a quarter of each other."""
    if r["syncs"]:
        return "sync"
    if r["mode"] != "eager":
        return "device"
    ratio = r["host_us"]["median"] / (r["gpu_busy_us"] + STREAM_GAP_US * r["gpu_ops"])
    return "host" if ratio > 1.25 else "device" if ratio < 0.8 else "mixed"


STEP_COLUMNS = ["workload", "mode", "run", "best", "network", "batch", "length", "context", "dtype", "bound", "step_ms", "step_ms_p10", "step_ms_p90",
                "groups", "steps_per_group", "gpu_busy_us", "gpu_ops", "kernels", "memsets", "memcpys", "kernel_launches", "graph_launches", "syncs",
                "host_us", "host_us_p10", "host_us_p90", "flops", "parameters", "peak_bytes", "resident_bytes", "built_bytes", "peak_bytes_whole",
                "reserved_bytes", "device_bytes", "first_call_s", "python_loop_us", "add_us", "sm_mhz", "watts", "note"]
COUNTS = ("gpu_ops", "kernels", "memsets", "memcpys", "kernel_launches", "graph_launches", "syncs")


def steps(raws, out):
    runs = {}
    for run, raw in enumerate(raws, 1):
        for r in lines(f"{raw}/steps.jsonl"):
            if "error" in r:
                print("left out:", raw, r["workload"], r["mode"], r["error"])
            else:
                runs.setdefault((r["workload"], r["mode"]), []).append(r | {"run": run})
    rows = []
    for several in runs.values():
        # the class of the least disturbed run; a disturbance of the host only ever adds time
        kind = bound(min(several, key=lambda r: r["host_us"]["median"]))
        # the last run is the best one where the device decides: its clocks were steady; else the fastest
        best = several[-1] if kind == "device" else min(several, key=lambda r: r["step_ms"]["median"])
        for r in several:
            s, h, p = r["step_ms"], r["host_us"], (r.get("probe", {}), r.get("probe_after", {}))
            rows.append([r["workload"], r["mode"], r["run"], int(r is best), r["network"], r["batch"], r["length"], r["context"], r["dtype"], kind,
                         s["median"], s["p10"], s["p90"], s["n"], s["per"], r["gpu_busy_us"],
                         *(int(r[k]) if float(r[k]).is_integer() else r[k] for k in COUNTS), h["median"], h["p10"], h["p90"], r.get("flops") or "",
                         r["parameters"], r["peak_bytes"], r["resident_bytes"], r["built_bytes"], r["peak_bytes_whole"], r["reserved_bytes"],
                         r["device_bytes"], r["first_call_s"], max(q.get("python_loop_us", 0) for q in p), max(q.get("add_us", 0) for q in p),
                         r.get("sm_mhz") or "", r.get("watts") or "", r["note"]])
    write(f"{out}/steps-networks.csv", STEP_COLUMNS, rows)


HOST_COLUMNS = ["op", "mode", "run", "in_situ_us", "in_situ_p25", "in_situ_p75", "first_in_situ_us", "hot_loop_us", "ratio", "gpu_ops", "rounds", "note",
                "kernels"]


def host_ops(raws, out):
    rows = []
    for run, raw in enumerate(raws, 1):
        entries = lines(f"{raw}/host_ops.jsonl")

        def kind(mode):  # the modes that launch the same kernels
            return mode.replace("no_grad", "grad")
        kernels = {(e["kernels_of"], kind(e["mode"])): e for e in entries if "kernels_of" in e}
        nothing = {e["mode"]: e for e in entries if e.get("op") == "nop"}
        for e in entries:
            if "in_situ_us" not in e:
                continue
            k, n = kernels.get((e["op"], kind(e["mode"])), {}), nothing[e["mode"]]
            rows.append([e["op"], e["mode"], run, *(round(v, 2) for v in (e["in_situ_us"], e["slope_p25"] - n["slope_us"], e["slope_p75"] - n["slope_us"],
                         e["first_in_situ_us"], e["hot_loop_us"])), round(e["in_situ_us"] / e["hot_loop_us"], 2) if e["hot_loop_us"] > 0.3 else "",
                         k.get("kernels", ""), e["rounds"], e["note"], " + ".join(k.get("names", []))])
    write(f"{out}/host_ops.csv", HOST_COLUMNS, rows)


KERNEL_COLUMNS = ["case", "family", "us", "us_min", "kernels", "main_kernel", "main_us", "grid", "block", "parts", "us_max", "sets", "us_other_run"]


def kernel_cases(raws, out, measured="kernels.jsonl", table="kernels-networks.csv"):
    """Of the last run that has kernels; the run before it gives the column us_other_run."""
    runs = [r for r in ({e["case"]: e for e in lines(f"{raw}/{measured}") if "us" in e} for raw in raws) if r]
    rows = []
    for r in runs[-1].values() if runs else []:
        main = max(r["parts"], key=lambda k: k[1])
        parts = " + ".join(f"{k[0][:48]}:{k[1]}" for k in r["parts"]) if len(r["parts"]) > 1 else ""
        other = runs[-2].get(r["case"], {}).get("us", "") if len(runs) > 1 else ""
        rows.append([r["case"], r["case"].split("/")[0], r["us"], r["us_min"], r["kernels"], main[0], main[1], main[2], main[3], parts, r["us_max"],
                     r["sets"], other])
    write(f"{out}/{table}", KERNEL_COLUMNS, rows)


def operations(raw, out):
    if not os.path.isdir(f"{raw}/ops"):
        return
    os.makedirs(f"{out}/ops", exist_ok=True)
    for name in sorted(os.listdir(f"{raw}/ops")):
        with open(f"{raw}/ops/{name}", "rb") as file:
            data = file.read()
        if len(data) > 16384:
            with open(f"{out}/ops/{name}.gz", "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=9, mtime=0) as packed:
                packed.write(data)
        else:
            with open(f"{out}/ops/{name}", "wb") as file:
                file.write(data)


def machines(raws, out):
    """Device, versions and launch cost of each run."""
    found = []
    for run, raw in enumerate(raws, 1):
        entries = [e for name in ("host_ops", "kernels", "steps") for e in lines(f"{raw}/{name}.jsonl") if "machine" in e]
        machine = {"run": run} | (entries[0]["machine"] if entries else {})
        if os.path.exists(f"{raw}/launch.json"):
            with open(f"{raw}/launch.json") as file:
                machine["launch"] = [json.loads(line) for line in file if line.startswith("{")]
        found.append(machine)
    with open(f"{out}/machines.json", "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables")
    parser.add_argument("raw", nargs="+")
    args = parser.parse_args()
    os.makedirs(args.tables, exist_ok=True)
    steps(args.raw, args.tables)
    host_ops(args.raw, args.tables)
    kernel_cases(args.raw, args.tables)
    kernel_cases(args.raw, args.tables, "training_kernels.jsonl", "kernels-training.csv")
    machines(args.raw, args.tables)
    for raw in args.raw:
        operations(raw, args.tables)


if __name__ == "__main__":
    main()
