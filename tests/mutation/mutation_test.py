#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of models/ and sim/engine.

  mutation_test.py prepare TREE   copy the sources to TREE/src, insert all mutants, build the tests
  mutation_test.py cover TREE     run each test once: how long it takes and which mutants it reaches
  mutation_test.py run TREE -n N  try N mutants, drawn from each file in proportion (again: the next ones)
  mutation_test.py retry TREE     build the tests of this checkout into TREE and try the survivors again
  mutation_test.py report TREE    killed of tried, by folder, and the survivors

Mutants sit behind one number each and are chosen at run time (GPUSIM_MUTANT), so that one build holds all of
them. Needs Debian's python3-clang-14 and libclang1-14 (use /usr/bin/python3). A test that fails, crashes or takes
longer than three times its time plus ten seconds kills the mutant.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import pickle
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rewrite import Finder, rewritten

ROOT = Path(__file__).resolve().parents[2]
MUTATED = ("models/**/*.cpp", "sim/engine/*.cpp", "sim/engine/*.inl", "sim/engine/*.hpp")
# What tests include: mutating these would compile every test again.
LEFT_OUT = {"sim/engine/" + name for name in
            ("program.hpp", "engine.hpp", "result.hpp", "footprint.hpp", "distribution.hpp", "large_vector.hpp",
             "time.hpp")}
# Tests that say something about models/ and sim/engine, and are no build of their own.
TESTS = """engine_test engine_property_test engine_sharing_test sharing_property_test plain_event_queue_test
concurrency_test critical_path_test collectives_test formula_test compiler_traffic_test traffic_property_test
recompute_property_test hardware_test kernel_cost_test config_test graph_test parallel_test networks_test
capture_test fusion_test simplify_test equal_blocks_test decompose_test fused_kernels_test saved_tensors_test
recompute_test memory_test eager_test program_test naive_engine_test report_golden_test
validation validation_two_gpus scenarios""".split()


def sh(command, **options):
    return subprocess.run(command, check=True, **options)


def mutated_files(root, only=None):
    files = {str(p.relative_to(root)) for pattern in MUTATED for p in Path(root).glob(pattern)}
    return sorted(f for f in files - LEFT_OUT if only is None or fnmatch.fnmatch(f, only))


class Tree:
    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.src = self.folder / "src"
        self.build = self.folder / "build"

    def load(self, name, default):
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else default

    def save(self, name, value):
        (self.folder / name).write_text(json.dumps(value))


# --- prepare

def copy_sources(tree):
    tree.src.mkdir(parents=True, exist_ok=True)
    names = sh(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
               capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, names):
        source, target = ROOT / name, tree.src / name
        if not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy2(source, target)


def configure(tree):
    sh(["cmake", "-S", tree.src, "-B", tree.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG", "-DGPUSIM_PYTHON=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        *([f"-DGPUSIM_SHARED_DIR={os.environ['GPUSIM_SHARED_DIR']}"] if "GPUSIM_SHARED_DIR" in os.environ
          else [])], stdout=subprocess.DEVNULL)


def find_mutants(tree, only=None):
    wanted = mutated_files(ROOT, only)
    finder = Finder(str(ROOT), wanted)
    # Looking takes minutes: what was found in the same sources is kept.
    digest = hashlib.sha256(b"".join(finder.bytes_of(name) for name in wanted)).hexdigest()
    kept = tree.folder / "found.pickle"
    if kept.exists():
        then, mutants = pickle.loads(kept.read_bytes())
        if then == digest:
            return finder, mutants
    # libclang brings no headers of its own.
    builtin = sorted(Path("/usr/lib").glob("llvm-14/lib/clang/*/include"))
    for entry in json.loads((tree.build / "compile_commands.json").read_text()):
        name = os.path.relpath(entry["file"], tree.src)
        if name not in wanted:
            continue
        words = shlex.split(entry["command"])
        options = [w.replace(str(tree.src), str(ROOT)) for w in words
                   if w.startswith(("-I", "-D", "-std")) or w == "-isystem"]
        finder.parse(str(ROOT / name), options + ["-w", *[f"-isystem{b}" for b in builtin[-1:]]])
    mutants = sorted(finder.found.values(), key=lambda m: m.key())
    kept.write_bytes(pickle.dumps((digest, mutants)))
    return finder, mutants


def write_mutated(tree, finder, mutants, dropped, names):
    for name in names:
        own = {i: m for i, m in enumerate(mutants) if m.file == name and i not in dropped}
        text = rewritten(finder.bytes_of(name), own) if own else finder.bytes_of(name)
        path = tree.src / name
        if not path.exists() or path.read_bytes() != text:
            path.write_bytes(text)


def lines_in_trouble(output, src):
    """(file, line) of everything that the compiler names in the neighbourhood of an error."""
    trouble, context = set(), []
    for line in output.split("\n"):
        at = re.match(r"(\S+?):(\d+):(?:\d+:)?\s+(.*)", line)
        if not at:
            if "In instantiation of" in line:
                context = []
            continue
        place = (os.path.relpath(os.path.join(src, "..", "build", at[1]), src), int(at[2]))
        if "error:" in at[3]:
            trouble.update(context + [place])
        elif "required from" in at[3]:
            context.append(place)
        elif "warning:" in at[3]:
            context = []
    return trouble


def prepare(tree, arguments):
    copy_sources(tree)
    configure(tree)
    finder, mutants = find_mutants(tree, arguments.files)
    print(len(mutants), "mutants in", len({m.file for m in mutants}), "files", flush=True)
    dropped = set(tree.load("dropped.json", []))
    names = mutated_files(ROOT, arguments.files)
    write_mutated(tree, finder, mutants, dropped, names)
    known = sh(["ninja", "-C", tree.build, "-t", "targets", "all"], capture_output=True, text=True).stdout
    wanted = arguments.only or [*TESTS, "gpusim"]
    targets = [t for t in wanted if re.search(rf"^{t}:", known, re.M)]
    for libraries in (True, False):
        while True:
            goal = targets
            if libraries:  # Everything that is mutated, before anything else.
                objects = {line.split(":")[0] for line in known.split("\n") if ".cpp.o:" in line}
                sources = [n for n in names if n.endswith(".cpp")]
                goal = sorted(o for o in objects
                              if any(o.startswith(os.path.dirname(n) + "/CMakeFiles/") and
                                     o.endswith("/" + os.path.basename(n) + ".o") for n in sources))
            result = subprocess.run(["nice", "-n", "15", "ninja", "-C", tree.build, "-j", arguments.jobs, "-k",
                                     "0", *goal], capture_output=True, text=True)
            if result.returncode == 0:
                break
            trouble = lines_in_trouble(result.stdout, tree.src)
            new = {i for i, m in enumerate(mutants)
                   if i not in dropped and any(m.file == f and m.line <= line <= m.line + m.lines
                                               for f, line in trouble)}
            (tree.folder / "build.log").write_text(result.stdout)
            if not new:
                sys.exit(f"does not build, see {tree.folder / 'build.log'}")
            dropped |= new
            print(len(new), "mutants do not compile and are left out", flush=True)
            tree.save("dropped.json", sorted(dropped))
            write_mutated(tree, finder, mutants, dropped, {mutants[i].file for i in new})
    tree.save("mutants.json", [{"id": i, "file": m.file, "line": m.line, "kind": m.kind, "text": m.text}
                               for i, m in enumerate(mutants) if i not in dropped])
    print("built", flush=True)


# --- cover

def commands(tree):
    listed = json.loads(sh(["ctest", "--test-dir", tree.build, "--show-only=json-v1"], capture_output=True,
                           text=True).stdout)
    for test in listed["tests"]:
        if test["name"] in TESTS and "command" in test and os.access(test["command"][0], os.X_OK):
            properties = {p["name"]: p["value"] for p in test.get("properties", [])}
            yield test["name"], test["command"], properties.get("WORKING_DIRECTORY", str(tree.build))


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # A loop that never ends may allocate.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_test(command, folder, mutant, timeout, coverage=None):
    """(passed, seconds)"""
    environment = dict(os.environ, GPUSIM_MUTANT=str(mutant))
    if coverage:
        environment["GPUSIM_MUTANT_COVERAGE"] = str(coverage)
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=limits, start_new_session=True)
    try:
        passed = process.wait(timeout) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        passed = False
    return passed, time.monotonic() - begin


def cover(tree, arguments):
    tests = tree.load("tests.json", {})
    for name, command, folder in commands(tree):
        if arguments.only and name not in arguments.only:
            continue
        file = tree.folder / f"reached-{name}"
        file.unlink(missing_ok=True)
        passed, _ = run_test(command, folder, -2, 900, file)
        _, seconds = run_test(command, folder, -1, 900)
        if not passed:
            print(name, "fails without a mutant: not used")
            tests.pop(name, None)
            continue
        reached = sorted({int(n) for n in file.read_text().split()}) if file.exists() else []
        tests[name] = {"command": command, "folder": folder, "seconds": seconds, "reached": reached}
        print(f"{name}: {seconds:.2f} s, {len(reached)} mutants", flush=True)
        tree.save("tests.json", tests)


# --- run

def judge(tests, mutant):
    """Name of the test that kills the mutant, or None."""
    reaching = sorted((t for t in tests if mutant in tests[t]["set"]), key=lambda t: tests[t]["seconds"])
    for name in reaching:
        test = tests[name]
        if not run_test(test["command"], test["folder"], mutant, 3 * test["seconds"] + 10)[0]:
            return name, len(reaching)
    return None, len(reaching)


def sample(mutants, count, seed, done):
    """`count` mutants not in `done`, of each file its share."""
    by_file = {}
    for mutant in mutants:
        by_file.setdefault(mutant["file"], []).append(mutant["id"])
    ranked = []
    for name in sorted(by_file):
        ids = by_file[name]
        random.Random(f"{seed} {name}").shuffle(ids)
        # The k-th of n of a file stands at (k + 1/2) / n of the whole.
        ranked += [((k + 0.5) / len(ids), name, i) for k, i in enumerate(ids)]
    # Small files would all come in the middle: what decides is a draw within each file's step.
    ranked = [(place + random.Random(f"{seed} {name} offset").uniform(-0.5, 0.5) / len(by_file[name]), name, i)
              for place, name, i in ranked]
    return [i for _, _, i in sorted(ranked) if i not in done][:count]


def load_tests(tree):
    tests = tree.load("tests.json", {})
    for test in tests.values():
        test["set"] = set(test["reached"])
    return tests


def try_mutants(tree, ids, file_name):
    tests = load_tests(tree)
    with open(tree.folder / file_name, "a") as results:
        for n, mutant in enumerate(ids):
            killer, reaching = judge(tests, mutant)
            results.write(json.dumps({"id": mutant, "killed_by": killer, "reaching": reaching}) + "\n")
            results.flush()
            if n % 20 == 19:
                print(n + 1, "of", len(ids), flush=True)


def results_of(tree):
    path = tree.folder / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {r["id"]: r for r in map(json.loads, lines)}  # The last word about each.


def run(tree, arguments):
    done = results_of(tree)
    mutants = tree.load("mutants.json", [])
    try_mutants(tree, sample(mutants, arguments.n, arguments.seed, done), "results.jsonl")


def retry(tree, arguments):
    mutated = set(mutated_files(tree.src))
    for name in sh(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
                   capture_output=True, text=True).stdout.split():
        source, target = ROOT / name, tree.src / name
        if name.startswith("tests/") and name not in mutated and source.is_file() and \
                (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    configure(tree)
    names = [name for name, *_ in commands(tree) if not arguments.only or name in arguments.only]
    sh(["nice", "-n", "15", "ninja", "-C", tree.build, "-j", arguments.jobs,
        *[n for n in names if n.endswith("_test")]], stdout=subprocess.DEVNULL)
    cover(tree, arguments)
    survivors = [i for i, r in results_of(tree).items() if r["killed_by"] is None]
    try_mutants(tree, survivors, "results.jsonl")


# --- report

def folder_of(file):
    return "/".join(file.split("/")[:2])


def report(tree, arguments):
    mutants = {m["id"]: m for m in tree.load("mutants.json", [])}
    reviewed = {}
    path = Path(__file__).parent / "reviewed.json"
    if path.exists():
        for entry in json.loads(path.read_text()):
            reviewed[(entry["file"], entry["kind"], entry["text"])] = entry
    table, survivors = {}, []
    for i, result in sorted(results_of(tree).items()):
        mutant = mutants[i]
        row = table.setdefault(folder_of(mutant["file"]), [0, 0, 0, 0])
        row[0] += 1
        verdict = reviewed.get((mutant["file"], mutant["kind"], mutant["text"]), {}).get("verdict")
        if result["killed_by"]:
            row[1] += 1
        elif verdict == "equivalent":
            row[2] += 1
        else:
            row[3] += 1
        if not result["killed_by"]:
            survivors.append((mutant, result, verdict))
    print("| folder | mutants | tried | killed | equivalent | alive | killed of what can be |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    total = [0, 0, 0, 0]
    count = lambda name: sum(folder_of(m["file"]) == name for m in mutants.values())
    for name, row in sorted(table.items()):
        print(f"| {name} | {count(name)} | " + " | ".join(map(str, row)) +
              f" | {100 * row[1] / max(1, row[0] - row[2]):.0f} % |")
        total = [a + b for a, b in zip(total, row)]
    print(f"| all | {len(mutants)} | " + " | ".join(map(str, total)) +
          f" | {100 * total[1] / max(1, total[0] - total[2]):.1f} % |")
    for mutant, result, verdict in survivors:
        reach = "" if result["reaching"] else " (no test reaches it)"
        print(f"{mutant['file']}:{mutant['line']}: {mutant['kind']}: {mutant['text']}{reach}"
              f" [{mutant['id']}] {verdict or ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "cover", "run", "retry", "report"])
    parser.add_argument("tree")
    parser.add_argument("-n", type=int, default=400)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--only", nargs="*", help="prepare, cover, retry: these tests")
    parser.add_argument("--files", help="prepare: only mutants of files like this, 'sim/engine/*'")
    arguments = parser.parse_args()
    globals()[arguments.what](Tree(arguments.tree), arguments)


if __name__ == "__main__":
    main()
