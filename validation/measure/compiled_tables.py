# SPDX-License-Identifier: Apache-2.0
"""Makes the compiled tables of validation/ from what compiled*.py wrote. Needs no PyTorch, no GPU and no other package.

usage: compiled_tables.py TABLES RAW [RAW ...]

TABLES/compiled/fusion.jsonl.gz, kernels.csv: which operations went into which kernel, per row and compiled graph.
TABLES/compiled_steps.csv, compiled_host.csv, compiled_host_fit.csv, compiled_shapes.json, compiled/machines.json.
"""
import argparse
import ast
import csv
import glob
import gzip
import json
import os
import re

# --- Inductor's generated source ----------------------------------------------------------------------------------------------
SHORT = {"torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float32": "f32", "torch.int64": "i64", "torch.int32": "i32", "torch.bool": "b8"}


def bracketed(text, start):
    """The text of a bracket that opens at `start`, and where it ends."""
    depth, quote, i = 0, None, start
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = None
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return text[start + 1:i], i + 1
        i += 1
    return text[start + 1:], i


def split_arguments(text):
    parts, depth, last, quote = [], 0, 0, None
    for i, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    parts.append(text[last:].strip())
    return [p for p in parts if p]


def origins(comment):
    """(source nodes, aten operations) of Inductor's comment line."""
    m = re.search(r"Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]", comment)
    if not m:
        return [], []
    return [s.strip() for s in m[1].split(",") if s.strip()], [s.strip() for s in m[2].split(",") if s.strip()]


def tensor(text):
    """bf16[8, 1024, 768][786432, 768, 1]cuda:0 -> (dtype, shape)"""
    m = re.match(r"(\w+)\[(.*?)\]", text or "")
    return [m[1], [int(d) if d.strip().isdigit() else d.strip() for d in m[2].split(",") if d.strip()]] if m else None


def graph_fragment(lines):
    """The nodes of a kernel's graph fragment: [name, operation, [dtype, shape] or None, arguments]; operation None: read from memory.
    The last element is what the kernel writes."""
    nodes, gives = [], []
    for line in lines:
        m = re.match(r"#\s+%(\S+) : (?:Tensor \"(.*?)\"\s*)?(?:\[num_users=\d+\])?\s*= (\w+)\[target=([^\]]+)\](?:\(args = (.*), kwargs = (.*)\))?", line)
        if m:
            name, kind, _, target, args, kwargs = m.groups()[0], tensor(m[2]), m[3], m[4], m[5], m[6]
            if m[3] == "PlaceHolder":
                nodes.append([name, None, kind, ""])
            else:
                short = target.replace("torch.ops.", "")
                inside = (args or "").strip()
                inside = inside[1:-1].rstrip(",") if inside.startswith("(") else inside
                nodes.append([name, short, kind, inside.replace("%", "") + ("" if not kwargs or kwargs.startswith("{}") else "; " + kwargs.rstrip(")"))])
            continue
        m = re.match(r"#\s+return (.*)", line)
        if m:
            gives = [s.strip().lstrip("%") for s in m[1].split(",")]
    return nodes, gives


def kernel_definitions(source):
    """{name: what its definition says}"""
    found = {}
    for m in re.finditer(r"^(\w+) = async_compile\.(triton|cpp\w*|multi_kernel)\(", source, re.M):
        name = m[1]
        end = source.find("\n''', device_str", m.end())
        body = source[m.end():end if end >= 0 else m.end() + 20000]
        before = source[:m.start()].rstrip("\n").split("\n")
        comment = []
        while before and before[-1].startswith("#"):
            comment.insert(0, before.pop())
        comment = comment[next((i for i, line in enumerate(comment) if "Source Nodes" in line), 0):]
        nodes, gives = graph_fragment(comment)
        sources, aten = origins(comment[0] if comment else "")
        mapping = {k: v.split(", ") for k, v in re.findall(r"^#\s+(\S+) => (.*)$", "\n".join(comment), re.M)}
        heuristic = re.search(r"@triton_heuristics\.(\w+)\(", body)
        hints = re.search(r"size_hints=(\{[^}]*\}|\[[^\]]*\])", body)

        def meta(key):
            v = re.search(rf"'{key}': ([^,}}]+)", body)
            try:
                return ast.literal_eval(v[1]) if v else None
            except Exception:
                return v[1]
        signature = re.search(rf"def {re.escape(name)}\(([^)]*)\)", body) or re.search(r"@triton\.jit\ndef \w+\(([^)]*)\)", body)
        parameters = [p.strip() for p in signature[1].split(",") if ":" not in p] if signature else []
        code = body[body.find("@triton.jit"):]
        config = re.search(r"(?:num_stages=(\d+),\s*)?num_warps=(\d+)", body)
        blocks = dict(re.findall(r"(\w*BLOCK\w*)\s*: tl\.constexpr = (\d+)", code))
        looped = bool(re.search(r"for r\w*_?offset in (?:tl\.)?range", code))
        kind = re.search(r"reduction_hint=ReductionHint\.(\w+)", body)
        types = re.search(r"'signature': (\{[^}]*\})", body)
        found[name] = {"heuristic": heuristic[1] if heuristic else m[2], "size_hints": ast.literal_eval(hints[1]) if hints else None,
                       "reduction_hint": kind[1] if kind else None, "num_load": meta("num_load"), "num_store": meta("num_store"),
                       "num_reduction": meta("num_reduction"), "tl_load": code.count("tl.load("), "tl_store": code.count("tl.store("),
                       "atomics": code.count("tl.atomic"), "dots": code.count("tl.dot("), "looped": looped, "no_x_dim": meta("no_x_dim"),
                       "mutated": re.search(r"'mutated_arg_names': \[(.*?)\]", body)[1].replace("'", "").split(", ") if "'mutated_arg_names': ['" in body else [],
                       "template": config and heuristic and heuristic[1] == "template" and {"num_stages": config[1], "num_warps": config[2], **blocks} or None,
                       "parameters": parameters, "types": ast.literal_eval(types[1]) if types else None, "source_nodes": sources, "aten": aten,
                       "mapping": mapping, "nodes": nodes, "writes": gives, "lines": code.count("\n")}
    return found


def buffer(text):
    """An argument's buffer or value: reinterpret_tensor(buf0, (2, 3), (3, 1), 0) -> buf0"""
    m = re.match(r"reinterpret_tensor\((\w+)", text)
    return m[1] if m else text


def graph(source):
    """One generated source: inputs, and the calls of each function (partitions first) in order."""
    definitions = kernel_definitions(source)
    main = re.sub(r"'''.*?'''", "", source, flags=re.S)
    main = re.split(r"^def (?:benchmark_compiled_module|get_args)", main, maxsplit=1, flags=re.M)[0]
    functions, inputs = [], 0
    for m in re.finditer(r"^( *)def (call|partition_\d+)\((?:self, )?args(?:, [^)]*)?\):\n", main, re.M):
        indent, lines = len(m[1]), []
        for line in main[m.end():].split("\n"):
            if line.strip() and len(line) - len(line.lstrip()) <= indent:
                break
            lines.append(line.strip())
        functions.append((m[2], lines))
    out = []
    for name, lines in functions:
        calls, allocations, reuses, asserts, comment, text = [], 0, 0, 0, "", ""
        views = sum(line.count("reinterpret_tensor(") for line in lines)
        shapes = {}
        for line in lines:
            if line.startswith("#"):
                if "Source Nodes" in line:
                    comment = line
                continue
            text = (text + " " + line).strip() if text else line
            if text.count("(") != text.count(")") or text.count("[") != text.count("]"):
                continue
            statement, text = text, ""
            for part in (s.strip() for s in statement.split("; ")):
                m = re.match(r"(\w+) = empty_strided_\w+\(\((.*?)\), \((.*?)\), (\S+)\)", part)
                if m:
                    allocations += 1
                    shapes[m[1]] = [SHORT.get(m[4], m[4]), [int(d) if d.strip().isdigit() else d.strip() for d in m[2].split(",") if d.strip()]]
                    continue
                if part.startswith("assert_size_stride(") or part.startswith("assert_alignment("):
                    asserts += 1
                    continue
                if re.match(r"\w+ = (\w+|reinterpret_tensor\(.*\))$", part) and "reuse" in part + statement:
                    reuses += 1
                m = re.match(r"(.*?) = args$", part)
                if m and name == "call":
                    inputs = len([a for a in m[1].split(",") if a.strip()])
                m = re.match(r"(?:(\w+|\([\w, ]*\)) = )?((?:extern_kernels|torch\.ops|aten|inductor_ops)\.[\w.]+|\w+\.run|partition\w*(?:\[\d+\])?|self\.partitions\[\d+\]|\w*(?:\.item)?)\(", part)
                if not m or m[2] in ("reinterpret_tensor", "get_raw_stream", "print", "range", "int", "float", "len", "empty_strided_cuda", ""):
                    continue
                target = m[2]
                if target.startswith("torch.cuda") or target.startswith("args"):
                    continue
                inside, _ = bracketed(part, part.find("(", m.end() - 1))
                arguments = split_arguments(inside)
                sources, aten = origins(comment)
                comment = ""
                if target.endswith(".run"):
                    kernel = target[:-4]
                    plain = [a for a in arguments if "=" not in a]
                    parameters = definitions.get(kernel, {}).get("parameters", [])
                    sizes = {p: (int(a) if a.isdigit() else a) for p, a in zip(parameters, plain) if p.endswith("numel")}
                    buffers = {p: buffer(a) for p, a in zip(parameters, plain) if "_ptr" in p or p.startswith("arg_")}
                    calls.append({"kernel": kernel, "kind": "triton", "sizes": sizes, "buffers": buffers, "source_nodes": sources, "aten": aten})
                elif target.startswith("extern_kernels.") or target.startswith("torch.ops.") or target.startswith("aten.") or target.startswith("inductor_ops."):
                    out_buffer = next((buffer(a[4:]) for a in arguments if a.startswith("out=")), m[1])
                    calls.append({"kernel": target, "kind": "extern" if target.startswith("extern_kernels.") else "fallback",
                                  "arguments": [a for a in arguments if not a.startswith("out=")], "out": out_buffer, "source_nodes": sources, "aten": aten})
                elif "partition" in target:
                    calls.append({"kernel": target, "kind": "partition"})
        out.append({"function": name, "calls": calls, "allocations": allocations, "reuses": reuses, "views": views, "asserts": asserts, "buffers": shapes})
    used = {c["kernel"] for f in out for c in f["calls"]}
    aot = re.search(r"AOT ID: \['(.*?)'\]", source)
    return {"aot": aot[1] if aot else "", "inputs": inputs, "kernels": {k: v for k, v in definitions.items() if k in used}, "functions": out}


def launches(parsed):
    """The calls of a graph in the order of the device, partitions in place of their calls."""
    parts = {f["function"]: f for f in parsed["functions"]}
    order, n = [], 0
    for c in parts.get("call", {"calls": []})["calls"]:
        if c["kind"] == "partition":
            number = re.search(r"(\d+)", c["kernel"])
            order += parts.get(f"partition_{number[1] if number else n}", {"calls": []})["calls"]
            n += 1
        else:
            order.append(c)
    return order


# --- files ---------------------------------------------------------------------------------------------------------------------
def lines(raws, pattern):
    for raw in raws:
        for path in sorted(glob.glob(f"{raw}/{pattern}")):
            with open(path) as file:
                for line in file:
                    try:
                        yield json.loads(line)
                    except ValueError:
                        print("broken line in", path)


def pack(path, rows):
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=9, mtime=0) as packed:
        for row in rows:
            packed.write((json.dumps(row) + "\n").encode())
    print(path, len(rows), "rows", os.path.getsize(path), "bytes")


def table(path, columns, rows):
    if not rows:
        return
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[r.get(c, "") if isinstance(r, dict) else r for c in columns] if isinstance(r, dict) else r for r in rows])
    print(path, len(rows), "rows")


def match(calls, run):
    """Durations of Triton kernels by name, in order: [(call, index in run)]; the rest of run belongs to the calls between."""
    out, j = [], 0
    for c in calls:
        if c["kind"] != "triton":
            continue
        k = j
        while k < len(run) and run[k][0] != c["kernel"][:110]:
            k += 1
        if k < len(run):
            out.append((c, k))
            j = k + 1
        else:
            out.append((c, None))
    return out


def segments(names):
    """A product or an attention on the device: memsets before it, its kernel, what puts the parts of a split together behind it."""
    out, before = [], []
    for i, name in enumerate(names):
        if name.startswith("Memset"):
            before.append(i)
        elif out and not before and re.search(r"splitKreduce|lean_reduction|combine", name):
            out[-1].append(i)
        else:
            out.append(before + [i])
            before = []
    return out if not before else []


def middle(values):
    return sorted(values)[len(values) // 2]


def placed(r):
    """A row with its sources parsed, and the calls' places among the GPU operations."""
    graphs = sorted((graph(s) for s in r.pop("sources")), key=lambda g: "backward" in g["aot"])
    runs = r.pop("gpu")
    same = [run for run in runs if len(run) == len(runs[-1])]
    gpu = [[*k[:3], middle([run[i][3] for run in same])] for i, k in enumerate(same[-1])] if same else []
    order = [c for g in graphs for c in launches(g)]
    # where several graphs, or a graph several times, run: the order of the device is that of the sources only without loops
    assigned = match(order, gpu)
    if any(i is None for _, i in assigned) or len(assigned) != sum(k[0].startswith("triton_") for k in gpu):
        print("order of the device differs from the sources':", r["row"])
        assigned = []
    for c, i in assigned:
        if i is not None:
            c["gpu"] = i
    taken = {i for _, i in assigned if i is not None}
    between, last = [], -1
    for c in order:
        if c["kind"] == "triton":
            last = c.get("gpu", last)
        else:
            between.append((c, last))
    groups = {}
    for c, after in between:
        groups.setdefault(after, []).append(c)
    for after, cs in groups.items():
        rest = []
        i = after + 1
        while i < len(gpu) and i not in taken:
            rest.append(i)
            i += 1
        parts = segments([gpu[k][0] for k in rest])
        if not assigned and any(c["kind"] == "triton" for c in order):
            continue
        if len(cs) == 1:
            cs[0]["gpu"] = rest
        elif len(parts) == len(cs):
            for c, part in zip(cs, parts):
                c["gpu"] = [rest[k] for k in part]
        else:
            cs[0]["gpu_shared"] = rest  # of this call and the ones up to the next Triton kernel
    return r | {"graphs_compiled": r.pop("graphs"), "graphs": graphs, "gpu": gpu}


def same_program(a, b):
    return len(a["gpu"]) == len(b["gpu"]) and [k[0] for k in a["gpu"] if k[0].startswith("triton")] == [k[0] for k in b["gpu"] if k[0].startswith("triton")] and \
        [[(c["kernel"], c.get("sizes")) for c in launches(g)] for g in a["graphs"]] == [[(c["kernel"], c.get("sizes")) for c in launches(g)] for g in b["graphs"]]


def fusion(raws, out):
    rows, flat = {}, []
    for run, raw in enumerate(raws, 1):
        for r in lines([raw], "fusion-*.jsonl"):
            if "row" not in r:
                continue
            if "error" in r:
                print("left out:", r["row"], r["error"][:150])
                continue
            r = placed(r) | {"run": run}
            earlier = rows.setdefault(r["row"], [])
            if earlier and same_program(earlier[0], r):
                earlier[0][f"gpu_run{run}"] = r["gpu"]
            else:
                if earlier:
                    print("another program in run", run, r["row"])
                earlier.append(r)
    rows = [r for several in rows.values() for r in several]
    for r in rows:
        gpu, other = r["gpu"], r.get("gpu_run2")
        for number, g in enumerate(r["graphs"]):
            for place, c in enumerate(launches(g)):
                d = g["kernels"].get(c["kernel"], {})
                where = c.get("gpu")
                where = [where] if isinstance(where, int) else where or []
                ops, again = [gpu[i] for i in where], [other[i] for i in where] if other else []
                flat.append({"row": r["row"], "run": r["run"], "graph": number, "call": place, "kind": c["kind"], "kernel": c["kernel"],
                             "heuristic": d.get("heuristic", ""), "aten": " ".join(a.replace("aten.", "") for a in c["aten"]),
                             "sizes": "x".join(str(v) for v in c.get("sizes", {}).values()), "reduction_hint": d.get("reduction_hint") or "",
                             "looped": int(bool(d.get("looped"))) if d else "", "loads": d.get("num_load", ""), "stores": d.get("num_store", ""),
                             "reductions": d.get("num_reduction", ""), "gpu_kernels": " + ".join(o[0][:60] for o in ops) if c["kind"] != "triton" else "",
                             "grid": ops[0][1] if len(ops) == 1 else "", "block": ops[0][2] if len(ops) == 1 else "",
                             "us": round(sum(o[3] for o in ops), 3) if ops else "", "grid_run2": again[0][1] if len(again) == 1 else "",
                             "block_run2": again[0][2] if len(again) == 1 else "", "us_run2": round(sum(o[3] for o in again), 3) if again else ""})
    if rows:
        os.makedirs(f"{out}/compiled", exist_ok=True)
        pack(f"{out}/compiled/fusion.jsonl.gz", rows)
        table(f"{out}/compiled/kernels.csv", list(flat[0]), flat)


# --- host costs ---------------------------------------------------------------------------------------------------------------------
COUNTS = ["graphs", "triton", "args", "mm", "addmm", "bmm", "sdpa", "conv", "other", "allocations", "views", "asserts", "graph_inputs", "parameters", "modules",
          "inputs", "outputs", "breaks", "items"]


def count(graphs):
    c = dict.fromkeys(("triton", "args", "mm", "addmm", "bmm", "sdpa", "conv", "other", "allocations", "views", "asserts", "graph_inputs"), 0)
    for g in graphs:
        if "backward" in g["aot"]:
            continue
        c["graph_inputs"] += g["inputs"]
        for f in g["functions"]:
            c["allocations"] += f["allocations"]
            c["asserts"] += f["asserts"]
            c["views"] += f["views"]
        for call in launches(g):
            k = call["kernel"]
            if call["kind"] == "triton":
                c["triton"] += 1
                c["args"] += len(call["buffers"])
            elif "attention" in k:
                c["sdpa"] += 1
            elif "convolution" in k:
                c["conv"] += 1
            elif k.endswith("addmm"):
                c["addmm"] += 1
            elif k.endswith("bmm"):
                c["bmm"] += 1
            elif k.endswith(".mm"):
                c["mm"] += 1
            else:
                c["other"] += 1
    return c


PRICES = {}  # the fit, for the column fit_us of the steps
HOST_COLUMNS = ["stack", "family", "mode", "context", *COUNTS, "input_bytes", "loop_us", "loop_p10", "loop_p90", "burst_us", "burst_p10", "burst_p90",
                "idle_us", "idle_p10", "idle_p90", "step_us", "device_bound", "python_loop_us", "quiet_rounds", "compile_s", "fit_us", "residual_us"]


def host(raws, out):
    rows = []
    for r in lines(raws, "compiled_host*.jsonl"):
        if "loop_us" not in r:
            if "error" in r:
                print("left out:", r["stack"], r["error"][:150])
            continue
        rows.append(r | count([graph(s) for s in r.pop("sources")]) | {
            "loop_us": r["loop_us"]["median"], "loop_p10": r["loop_us"]["p10"], "loop_p90": r["loop_us"]["p90"],
            "burst_us": r["burst_us"]["median"], "burst_p10": r["burst_us"]["p10"], "burst_p90": r["burst_us"]["p90"],
            "idle_us": r["idle_us"]["median"], "idle_p10": r["idle_us"]["p10"], "idle_p90": r["idle_us"]["p90"], "step_us": r["step_us"]["median"],
            "device_bound": int(r["step_us"]["median"] > 1.15 * r["loop_us"]["median"] or r["loop_us"]["median"] > 1.3 * r["burst_us"]["median"]),
            "outputs": int(r["stack"].split("/")[1]) if r["family"].endswith("outputs") else 9 if "many_locals" in r["stack"] else 1})
    if not rows:
        return
    fits = fit(rows)
    PRICES.update({m: {f["cost"]: f["us"] for f in fits if f["mode"] == m} for m in ("default", "reduce-overhead")})
    table(f"{out}/compiled_host_fit.csv", ["mode", "cost", "us", "uncertainty", "stacks", "rms_residual_percent", "worst_residual_percent"], fits)
    table(f"{out}/compiled_host.csv", HOST_COLUMNS, rows)


def least_squares(a, y):
    """The solution of a x = y and the inverse of a^T a, by Gauss-Jordan."""
    n = len(a[0])
    m = [[sum(line[i] * line[j] for line in a) for j in range(n)] + [float(i == j) for j in range(n)] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(m[k][i]))
        m[i], m[pivot] = m[pivot], m[i]
        if abs(m[i][i]) < 1e-14:
            raise ValueError("two costs of the fit cannot be told apart")
        m[i] = [v / m[i][i] for v in m[i]]
        for k in range(n):
            if k != i and m[k][i]:
                m[k] = [v - m[k][i] * u for v, u in zip(m[k], m[i])]
    inverse = [line[n:] for line in m]
    right = [sum(line[i] * v for line, v in zip(a, y)) for i in range(n)]
    return [sum(v * r for v, r in zip(line, right)) for line in inverse], inverse


def fit(rows):
    """Least squares of relative residuals over the designed stacks (the blocks of networks, other contexts and loops are left out, as a check)."""
    result = []
    checks = ("gpt_blocks", "llama_blocks", "ro_gpt_blocks", "dynamic", "grad", "inference_mode", "ro_unmarked", "ro_inference_mode", "ro_input_KiB",
              "loop_breaks", "ro_loop_breaks", "items", "ro_items")
    designs = {"default": ("triton", "mm", "addmm", "bmm", "sdpa", "conv", "other", "allocations", "views", "parameters", "inputs", "breaks"),
               "reduce-overhead": ("parameters", "modules", "inputs", "outputs", "breaks")}
    for mode, names in designs.items():
        mine = [r for r in rows if r["mode"] == mode]
        used = [r for r in mine if r["family"] not in checks and not r["device_bound"]]
        names = [n for n in names if any(r[n] for r in used)]
        if len(used) < len(names) + 3:
            continue
        value = "burst_us"
        a = [[1.0] + [float(r[n]) for n in names] for r in used]
        y = [r[value] for r in used]
        x, inverse = least_squares([[c / v for c in line] for line, v in zip(a, y)], [1.0] * len(y))
        relative = [sum(c * k for c, k in zip(line, x)) / v - 1 for line, v in zip(a, y)]
        s2 = sum(e * e for e in relative) / max(1, len(used) - len(x))
        deviation = [(max(0.0, inverse[i][i]) * s2) ** 0.5 for i in range(len(x))]
        for n, v, d in zip(["call"] + names, x, deviation):
            result.append({"mode": mode, "cost": n, "us": round(float(v), 3), "uncertainty": round(float(d), 3), "stacks": len(used),
                           "rms_residual_percent": round(100 * (sum(e * e for e in relative) / len(relative)) ** 0.5, 1),
                           "worst_residual_percent": round(100 * max(map(abs, relative)), 1)})
        for r in mine:
            r["fit_us"] = round(float(x[0] + sum(v * float(r[n]) for n, v in zip(names, x[1:]))), 1)
            r["residual_us"] = round(r[value] - r["fit_us"], 1)
    return result


# --- steps ------------------------------------------------------------------------------------------------------------------------------
STEP_COLUMNS = ["row", "mode", "run", "best", "network", "parameters", "batch", "sequence", "dtype", "step", "step_ms", "step_ms_p10", "step_ms_p90", "groups", "steps_per_group",
                "gpu_busy_us", "gpu_ops", "kernels", "memsets", "memcpys", "kernel_launches", "graph_launches", "syncs", "host_us", "host_us_p10", "host_us_p90",
                "burst_us", "burst_us_p10", "burst_us_p90", "fit_us", "graphs", "triton_kernels", "extern_calls", "template_kernels", "partitions", "parameter_count",
                "module_count", "first_call_s", "peak_bytes", "peak_bytes_whole", "resident_bytes", "reserved_bytes", "built_bytes", "python_loop_us", "attempts",
                "sm_mhz", "watts", "note"]


def steps(raws, out):
    parsed, found = {}, []
    for run, raw in enumerate(raws, 1):
        for e in lines([raw], "compiled_steps_sources.jsonl"):
            parsed[e["row"], e["mode"], run] = [graph(t) for t in e["sources"]]
        found += [r | {"run": run} for r in lines([raw], "compiled_steps.jsonl")]
    rows, detail = [], []
    for r in found:
        if "error" in r:
            print("left out:", r["row"], r["mode"], r["error"][:150])
            continue
        graphs = parsed.get((r["row"], r["mode"], r["run"]), [])
        calls = [c for g in graphs for c in launches(g)]
        row = {k: v for k, v in r.items() if k in STEP_COLUMNS}
        row["parameters"] = ";".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in r["parameters"].items())
        for name in ("step_ms", "host_us", "burst_us"):
            row[name], row[name + "_p10"], row[name + "_p90"] = r[name]["median"], r[name]["p10"], r[name]["p90"]
        row["groups"], row["steps_per_group"] = r["step_ms"]["n"], r["step_ms"]["per"]
        row["triton_kernels"] = sum(c["kind"] == "triton" for c in calls)
        row["extern_calls"] = sum(c["kind"] != "triton" for c in calls)
        row["template_kernels"] = sum(c["kernel"].startswith("triton_tem") for c in calls)
        prices = PRICES.get("reduce-overhead" if r["mode"] in ("reduce-overhead", "max-autotune") else "default")
        if prices and graphs:
            has = count(graphs) | {"call": 1, "parameters": r["parameter_count"], "modules": r["module_count"], "inputs": 1, "outputs": 1, "breaks": len(graphs) - 1}
            row["fit_us"] = round(sum(v * has[k] for k, v in prices.items()), 1)
        row["partitions"] = sum(f["function"].startswith("partition") for g in graphs for f in g["functions"])
        rows.append(row)
        kinds = {}
        for g in graphs:
            for c in launches(g):
                key = (c["kernel"], c["kind"], " ".join(c["aten"]))
                entry = kinds.setdefault(key, {"kernel": c["kernel"], "kind": c["kind"], "aten": c["aten"], "count": 0, "sizes": c.get("sizes"),
                                               "template": (g["kernels"].get(c["kernel"]) or {}).get("template")})
                entry["count"] += 1
        detail.append({"row": r["row"], "mode": r["mode"], "run": r["run"], "calls": list(kinds.values()), "gpu": (r.get("gpu") or [[]])[0], "runtime_calls": r.get("runtime_calls")})
    for row in rows:  # a disturbance of the host only adds: the fastest run of a row is the one to test against
        row["best"] = int(row["step_ms"] == min(q["step_ms"] for q in rows if (q["row"], q["mode"]) == (row["row"], row["mode"])))
    if rows:
        table(f"{out}/compiled_steps.csv", STEP_COLUMNS, rows)
        os.makedirs(f"{out}/compiled", exist_ok=True)
        pack(f"{out}/compiled/steps-detail.jsonl.gz", detail)


def shapes(raws, out):
    rows = [r for r in lines(raws, "compiled_shapes.jsonl") if "sequence" in r]
    if rows:
        with open(f"{out}/compiled_shapes.json", "w") as file:
            file.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
        print(f"{out}/compiled_shapes.json", len(rows), "sequences")


def machines(raws, out):
    found = []
    for run, raw in enumerate(raws, 1):
        entry = next((r["machine"] for name in ("fusion-*", "compiled_host*", "compiled_shapes") for r in lines([raw], name + ".jsonl") if "machine" in r), None)
        if entry:
            found.append({"run": run} | entry)
    if found:
        with open(f"{out}/compiled/machines.json", "w") as file:
            json.dump(found, file, indent=1)
            file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables")
    parser.add_argument("raw", nargs="+")
    args = parser.parse_args()
    os.makedirs(args.tables, exist_ok=True)
    for make in (fusion, host, steps, shapes, machines):
        make(args.raw, args.tables)


if __name__ == "__main__":
    main()
