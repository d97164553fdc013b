# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of validation/ from what steps.py, host_ops.py and kernels.py wrote. Needs no PyTorch and no GPU.

usage: tables.py RAW TABLES [--suffix -repeated]
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


STEP_COLUMNS = ["workload", "mode", "network", "batch", "length", "context", "dtype", "bound", "step_ms", "step_ms_p10", "step_ms_p90", "groups",
                "steps_per_group", "gpu_busy_us", "gpu_ops", "kernels", "memsets", "memcpys", "kernel_launches", "graph_launches", "syncs", "host_us",
                "host_us_p10", "host_us_p90", "flops", "parameters", "peak_bytes", "resident_bytes", "built_bytes", "peak_bytes_whole",
                "reserved_bytes", "device_bytes", "first_call_s", "python_loop_us", "add_us", "sm_mhz", "watts", "note"]


def steps(raw, out, suffix):
    rows = []
    for r in lines(f"{raw}/steps.jsonl"):
        if "error" in r:
            print("left out:", r["workload"], r["mode"], r["error"])
            continue
        s, h, p = r["step_ms"], r["host_us"], r.get("probe", {})
        q = r.get("probe_after", p)
        number = {k: int(r[k]) if float(r[k]).is_integer() else r[k] for k in ("gpu_ops", "kernels", "memsets", "memcpys", "kernel_launches",
                                                                               "graph_launches", "syncs")}
        rows.append([r["workload"], r["mode"], r["network"], r["batch"], r["length"], r["context"], r["dtype"], bound(r), s["median"], s["p10"],
                     s["p90"], s["n"], s["per"], r["gpu_busy_us"], number["gpu_ops"], number["kernels"], number["memsets"], number["memcpys"],
                     number["kernel_launches"], number["graph_launches"], number["syncs"], h["median"], h["p10"], h["p90"], r.get("flops") or "",
                     r["parameters"], r["peak_bytes"], r["resident_bytes"], r["built_bytes"], r["peak_bytes_whole"], r["reserved_bytes"],
                     r["device_bytes"], r["first_call_s"], max(p.get("python_loop_us", 0), q.get("python_loop_us", 0)),
                     max(p.get("add_us", 0), q.get("add_us", 0)), r.get("sm_mhz") or "", r.get("watts") or "", r["note"]])
    if rows:
        write(f"{out}/steps-networks{suffix}.csv", STEP_COLUMNS, rows)


HOST_COLUMNS = ["op", "mode", "in_situ_us", "in_situ_p25", "in_situ_p75", "first_in_situ_us", "hot_loop_us", "ratio", "gpu_ops", "rounds", "note", "kernels"]


def host_ops(raw, out, suffix):
    entries = lines(f"{raw}/host_ops.jsonl")
    kernels = {}
    for e in entries:
        if "kernels_of" in e:
            kernels[e["kernels_of"], e["mode"].replace("no_grad", "grad")] = e
    nothing = {e["mode"]: e for e in entries if e.get("op") == "nop"}
    rows = []
    for e in entries:
        if "in_situ_us" not in e:
            continue
        k = kernels.get((e["op"], e["mode"].replace("no_grad", "grad")), {})
        n = nothing[e["mode"]]
        rows.append([e["op"], e["mode"], round(e["in_situ_us"], 2), round(e["slope_p25"] - n["slope_us"], 2), round(e["slope_p75"] - n["slope_us"], 2),
                     round(e["first_in_situ_us"], 2), round(e["hot_loop_us"], 2), round(e["in_situ_us"] / e["hot_loop_us"], 2) if e["hot_loop_us"] > 0.3 else "",
                     k.get("kernels", ""), e["rounds"], e["note"], " + ".join(k.get("names", []))])
    if rows:
        write(f"{out}/host_ops{suffix}.csv", HOST_COLUMNS, rows)


KERNEL_COLUMNS = ["case", "family", "us", "us_min", "kernels", "main_kernel", "main_us", "grid", "block", "parts", "us_max", "sets"]


def kernel_cases(raw, out, suffix):
    rows = []
    for r in lines(f"{raw}/kernels.jsonl"):
        if "case" not in r or "error" in r:
            continue
        main = max(r["parts"], key=lambda k: k[1])
        parts = " + ".join(f"{k[0][:48]}:{k[1]}" for k in r["parts"]) if len(r["parts"]) > 1 else ""
        rows.append([r["case"], r["case"].split("/")[0], r["us"], r["us_min"], r["kernels"], main[0], main[1], main[2], main[3], parts, r["us_max"], r["sets"]])
    if rows:
        write(f"{out}/kernels-networks{suffix}.csv", KERNEL_COLUMNS, rows)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw")
    parser.add_argument("tables")
    parser.add_argument("--suffix", default="")
    args = parser.parse_args()
    os.makedirs(args.tables, exist_ok=True)
    steps(args.raw, args.tables, args.suffix)
    host_ops(args.raw, args.tables, args.suffix)
    kernel_cases(args.raw, args.tables, args.suffix)
    machines = {name: next((e["machine"] for e in lines(f"{args.raw}/{name}.jsonl") if "machine" in e), None) for name in ("host_ops", "kernels")}
    machine = next((m for m in machines.values() if m), None)
    if machine:
        if os.path.exists(f"{args.raw}/launch.json"):
            with open(f"{args.raw}/launch.json") as file:
                machine["launch"] = [json.loads(line) for line in file if line.startswith("{")]
        with open(f"{args.tables}/machine{args.suffix}.json", "w") as file:
            json.dump(machine, file, indent=1)
            file.write("\n")
    if not args.suffix:
        operations(args.raw, args.tables)


if __name__ == "__main__":
    main()
