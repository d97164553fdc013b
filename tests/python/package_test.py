# SPDX-License-Identifier: Apache-2.0
"""The Python package as its users meet it. docs/python.md is its manual."""
import array
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import gpusim

SOURCE = Path(os.environ["GPUSIM_SOURCE_DIR"])
PROGRAM = os.environ["GPUSIM_PROGRAM"]


def has(module):
    return importlib.util.find_spec(module) is not None


def kernels(**more):
    """300 kernels of 3 us behind launches of 6 us: 300 * 6 + 3 = 1803 us from an idle machine."""
    return {"name": "small", "workload": {"kernels": [{"kernel": "k", "duration": "3 us", "launch": "6 us",
                                                       "repeat": 300}]}, **more}


class Running(unittest.TestCase):
    def test_a_dict_is_a_scenario(self):
        report = gpusim.run(kernels(variants={"eager": None, "graph": {"cuda_graph": "full"}}, steps=1))
        self.assertEqual(list(report), ["eager", "graph"])
        self.assertEqual(report["eager"].makespan_us, 1803)
        self.assertEqual(report["graph"].makespan_us, 906)  # One launch of 6 us, then 300 * 3.
        self.assertEqual(report.scenario, "small")
        self.assertIn("1803.00 us", str(report))

    def test_figures_are_those_of_the_command_line(self):
        file = SOURCE / "scenarios" / "launch_bound_decode.yaml"
        report = gpusim.run(file)
        output = subprocess.run([PROGRAM, "run", str(file), "--format", "json"], stdout=subprocess.PIPE, check=True)
        self.assertEqual(report.to_dict(), json.loads(output.stdout)["scenarios"][0])
        self.assertTrue(all(expectation["pass"] for expectation in report.expectations))

    def test_set_and_variant_change_what_is_run(self):
        scenario = kernels(variants={"a": None, "b": None}, steps=1)
        report = gpusim.run(scenario, set={"workload.kernels.0.repeat": 100}, variant="b")
        self.assertEqual(list(report), ["b"])
        self.assertEqual(report["b"].makespan_us, 603)
        self.assertEqual(report["b"]["idle_us.dispatch"], report["b"].idle_us["dispatch"])
        whole = {"workload": {"kernels": [{"kernel": "k", "duration": "2 us", "launch": "1 us"}]}}
        self.assertEqual(gpusim.run(scenario, set=whole, variant=["a"])["a"].makespan_us, 3)

    def test_an_unknown_figure_names_the_known_ones(self):
        run = gpusim.run(kernels()).runs[0]
        with self.assertRaisesRegex(AttributeError, "no figure 'stepp_time_us'; there are .*step_time_us"):
            run.stepp_time_us
        self.assertIn("gpu_utilization", dir(run))

    def test_the_timeline_has_each_op_and_the_call_that_launched_it(self):
        run = gpusim.run(kernels(steps=2), timeline=True).runs[0]
        ops = run.timeline["gpu_ops"]
        calls = run.timeline["host_calls"]
        self.assertEqual(len(ops["name"]), 600)
        self.assertEqual(set(ops["name"]), {"k"})
        self.assertEqual(ops["start_ps"][0], 6_000_000)  # Its launch has returned.
        self.assertEqual(ops["end_us"][0], 9)
        self.assertEqual(ops["step"][-1], 1)
        first = ops["host_call"][0]
        self.assertEqual((calls["kind"][first], calls["start_us"][first], calls["end_us"][first]), ("launch", 0, 6))
        for table in (ops, calls):
            self.assertEqual({len(column) for column in table.values()}, {len(table["name"])})
        with self.assertRaisesRegex(ValueError, "timeline=True"):
            gpusim.run(kernels()).runs[0].timeline

    def test_memory_over_time_comes_with_what_it_is_taken_for(self):
        scenario = {"hardware": "h200", "host": "xeon-h200-cloud",
                    "workload": {"network": "gpt2", "step": "training", "batch": 1, "sequence": 128, "dtype": "bf16",
                                 "optimizer": "adamw", "parameters": {"layers": 2}}}
        memory = gpusim.run(scenario, timeline=True).runs[0].timeline["memory"]
        self.assertGreater(len(memory["bytes"]), 10)
        kinds = [column for name, column in memory.items() if name not in ("at_us", "bytes")]
        for i, total in enumerate(memory["bytes"]):
            self.assertEqual(total, sum(column[i] for column in kinds))

    @unittest.skipUnless(has("numpy"), "NumPy is not installed")
    def test_numpy_takes_the_timeline_without_copying(self):
        import numpy
        ops = gpusim.run(kernels(), timeline=True).runs[0].timeline["gpu_ops"]
        starts = numpy.asarray(ops["start_ps"])
        self.assertEqual(starts.dtype, numpy.int64)
        self.assertTrue(numpy.shares_memory(starts, numpy.frombuffer(ops["start_ps"], dtype=numpy.int64)))
        self.assertEqual(numpy.asarray(ops["end_us"]).sum() - numpy.asarray(ops["start_us"]).sum(), 900)

    @unittest.skipUnless(has("numpy"), "NumPy is not installed")
    def test_numbers_and_arrays_of_numpy_are_values(self):
        import numpy
        scenario = kernels(steps=numpy.int64(1))
        scenario["workload"]["kernels"][0]["repeat"] = numpy.int32(100)
        self.assertEqual(gpusim.run(scenario).runs[0].makespan_us, 603)
        rows = gpusim.sweep(kernels(steps=1), {"workload.kernels.0.repeat": numpy.arange(1, 4)}, columns="makespan")
        self.assertEqual(list(rows["makespan_us"]), [9, 15, 21])

    def test_runs_of_several_threads_do_not_wait_for_each_other(self):
        # A thread that counts while another simulates: with Python's lock held it could not.
        scenario = kernels(steps=1)
        scenario["workload"]["kernels"][0]["repeat"] = 3_000_000
        counted = []
        done = threading.Event()

        def simulate():
            try:
                gpusim.run(scenario)
            finally:
                done.set()

        worker = threading.Thread(target=simulate)
        worker.start()
        while not done.wait(0.001):
            counted.append(1)
        worker.join()
        self.assertGreater(len(counted), 5)


class Sweeping(unittest.TestCase):
    vary = {"workload.kernels.0.launch": ["1 us", "6 us"], "workload.kernels.0.repeat": [1, 100]}

    def test_columns_have_a_row_for_each_point_and_variant(self):
        rows = gpusim.sweep(kernels(steps=1), self.vary, columns=["makespan", "regime"])
        self.assertEqual(list(rows), ["point", "variant", *self.vary, "makespan_us", "regime", "error"])
        # 1 + 3; 1 + 100 * 3; 6 + 3; 100 * 6 + 3.
        self.assertEqual(rows["makespan_us"], array.array("d", [4, 301, 9, 603]))
        self.assertEqual(rows["workload.kernels.0.repeat"], array.array("q", [1, 100, 1, 100]))
        self.assertEqual(rows["workload.kernels.0.launch"], ["1 us", "1 us", "6 us", "6 us"])
        self.assertEqual(rows["error"], [None] * 4)
        self.assertEqual(rows["variant"], ["default"] * 4)

    def test_it_gives_what_the_command_line_gives(self):
        file = SOURCE / "scenarios" / "launch_bound_decode.yaml"
        vary = "workload.kernels.0.launch=1 us:7 us:2 us"
        rows = gpusim.sweep(file, dict([vary.split("=")]), columns="all")
        out = subprocess.run([PROGRAM, "sweep", str(file), "--vary", vary, "--columns", "all"], check=True,
                             stdout=subprocess.PIPE, universal_newlines=True).stdout.splitlines()
        self.assertEqual(out[0].split(","), list(rows))
        times = [float(line.split(",")[out[0].split(",").index("step_time_us")]) for line in out[1:]]
        self.assertEqual(list(rows["step_time_us"]), times)

    def test_values_side_by_side_and_drawn(self):
        zipped = gpusim.sweep(kernels(steps=1), self.vary, mode="zip", columns="makespan")
        self.assertEqual(list(zipped["makespan_us"]), [4, 603])
        drawn = gpusim.sweep(kernels(steps=1), self.vary, mode="random", count=3, seed=1, columns="makespan")
        self.assertEqual(len(drawn["point"]), 3)
        self.assertTrue(set(drawn["makespan_us"]) < {4, 301, 9, 603})

    def test_the_same_columns_come_from_any_number_of_threads(self):
        vary = {"workload.kernels.0.repeat": "1:200:1"}
        one = gpusim.sweep(kernels(), vary, jobs=1)
        self.assertEqual(repr(one), repr(gpusim.sweep(kernels(), vary, jobs=3)))

    def test_a_point_that_fails_is_a_row_with_its_error(self):
        rows = gpusim.sweep(kernels(steps=1), {"workload.kernels.0.repeat": [1, -1]}, columns=["makespan", "regime"])
        self.assertEqual(rows["makespan_us"][0], 9)
        self.assertNotEqual(rows["makespan_us"][1], rows["makespan_us"][1])  # NaN.
        self.assertIsNone(rows["regime"][1])
        self.assertIsNone(rows["error"][0])
        self.assertIn("repeat", rows["error"][1])

    def test_progress_is_told_and_may_end_it(self):
        class Enough(Exception):
            pass

        def enough(done, total):
            seen.append((done, total))
            raise Enough

        seen = []
        with self.assertRaises(Enough):
            gpusim.sweep(kernels(), {"workload.kernels.0.repeat": "1:20000:1"}, columns="regime", progress=enough)
        self.assertEqual(len(seen), 1)
        self.assertEqual(seen[0][1], 20000)

    def test_arguments_that_do_not_go_together_are_refused(self):
        with self.assertRaisesRegex(ValueError, "mode must be"):
            gpusim.sweep(kernels(), self.vary, mode="gird")
        with self.assertRaisesRegex(ValueError, "count"):
            gpusim.sweep(kernels(), self.vary, mode="random")
        with self.assertRaisesRegex(ValueError, "at least one path"):
            gpusim.sweep(kernels(), {})
        with self.assertRaisesRegex(gpusim.ConfigError, "did you mean 'makespan_us'"):
            gpusim.sweep(kernels(), self.vary, columns="makespann")
        with self.assertRaisesRegex(gpusim.ConfigError, "repeet"):
            gpusim.sweep(kernels(), {"workload.kernels.0.repeet": [1, 2]})

    @unittest.skipUnless(has("pandas"), "pandas is not installed")
    def test_pandas_takes_the_columns(self):
        import pandas
        frame = pandas.DataFrame(gpusim.sweep(kernels(steps=1), self.vary, columns=["makespan", "regime"]))
        self.assertEqual(len(frame), 4)
        self.assertEqual(str(frame["makespan_us"].dtype), "float64")
        self.assertEqual(str(frame["workload.kernels.0.repeat"].dtype), "int64")


class Advising(unittest.TestCase):
    def test_it_says_what_the_command_says(self):
        file = SOURCE / "scenarios" / "launch_bound_decode.yaml"
        found = gpusim.advise(file)
        self.assertEqual(found["next"]["changes"], ["cuda_graph=full"])
        output = subprocess.run([PROGRAM, "advise", str(file), "--format", "json"], stdout=subprocess.PIPE, check=True)
        self.assertEqual(found, json.loads(output.stdout))

    def test_a_dict_with_what_was_found_set_runs_as_predicted(self):
        scenario = kernels(variants={"eager": None})
        found = gpusim.advise(scenario, "eager")
        sets = dict(change.split("=", 1) for change in found["next"]["set"])
        self.assertEqual(gpusim.run(scenario, set=sets)["eager"].step_time_us, found["next"]["step_time_us"])
        with self.assertRaisesRegex(gpusim.ConfigError, "--max-memory"):
            gpusim.advise(scenario, max_memory="much")


class Mistakes(unittest.TestCase):
    def test_a_mistake_in_a_file_has_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bad.yaml"
            file.write_text("workload:\n  kernels:\n    - {kernel: k, duration: 3 parsecs, launch: 6 us}\n")
            with self.assertRaises(gpusim.ConfigError) as caught:
                gpusim.run(file)
        error = caught.exception
        self.assertEqual((error.file, error.line, error.column), (str(file), 3, 29))
        self.assertEqual(error.path, "workload.kernels[0].duration")
        self.assertTrue(error.hint)
        self.assertIn(":3:29: error: workload.kernels[0].duration: ", str(error))
        self.assertIsInstance(error, ValueError)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.diagnostics), (str(error), error.diagnostics))

    def test_a_mistake_in_a_dict_has_the_path_of_its_key(self):
        with self.assertRaises(gpusim.ConfigError) as caught:
            gpusim.run({"workload": {"kernels": [{"kernel": "k", "duration": 3, "launch": "6 us"},
                                                 {"kernel": "k", "durration": "3 us"}]}})
        paths = [diagnostic.path for diagnostic in caught.exception.diagnostics]
        self.assertIn("workload.kernels[0].duration", paths)
        self.assertIn("workload.kernels[1].durration", paths)
        self.assertEqual((caught.exception.file, caught.exception.line), ("<dict>", 0))

    def test_what_no_scenario_holds_is_refused(self):
        for value, what in ((object(), "type 'object'"), ({1: 2}, "a key must be a str")):
            with self.assertRaisesRegex(gpusim.ConfigError, f"workload.x: .*{what}"):
                gpusim.run({"workload": {"x": value}})
        endless = {}
        endless["workload"] = endless
        with self.assertRaisesRegex(gpusim.ConfigError, "limit depth"):
            gpusim.run(endless)
        with self.assertRaises(TypeError):
            gpusim.run(3)

    def test_a_set_or_variant_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(gpusim.ConfigError, "--set workload.kernels.7.repeat=1"):
            gpusim.run(kernels(), set={"workload.kernels.7.repeat": 1})
        with self.assertRaisesRegex(gpusim.ConfigError, "unknown variant 'eagre'"):
            gpusim.run(kernels(), variant="eagre")
        with self.assertRaisesRegex(gpusim.ConfigError, "steps: .*at least 1"):
            gpusim.run(kernels(), steps=0)

    def test_a_file_that_is_not_there_is_a_mistake(self):
        with self.assertRaisesRegex(gpusim.ConfigError, "nowhere.yaml"):
            gpusim.run("nowhere.yaml")

    def test_a_step_that_is_stuck_is_a_deadlock(self):
        with self.assertRaisesRegex(gpusim.DeadlockError, "stuck"):
            gpusim.run({"workload": {"kernels": [{"kernel": "k", "duration": "3 us", "after": ["never"]}]}})
        self.assertTrue(issubclass(gpusim.DeadlockError, gpusim.Error))

    def test_a_file_that_is_no_trace_is_a_trace_error(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bad.trace.json"
            file.write_text("{]")
            with self.assertRaises(gpusim.TraceError):
                gpusim.run(file)


if __name__ == "__main__":
    sys.exit(unittest.main())
