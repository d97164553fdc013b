# SPDX-License-Identifier: Apache-2.0
"""Where does a deep-learning step's time go, and what would each remedy buy?

    import gpusim
    report = gpusim.run("step.yaml")
    print(report)                                   # as `gpusim run` prints it
    report["eager"].step_time_us                    # figures by the names of `gpusim run --format json`
    gpusim.sweep("step.yaml", vary={"workload.batch": [1, 2, 4]})   # columns, for pandas and NumPy

A scenario is a file's path or a dict that says what the file would. docs/python.md is the manual.
"""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Union

from gpusim import _core
from gpusim._errors import ConfigError, DeadlockError, Diagnostic, Error, TimeLimitError, TraceError
from gpusim._results import Report, Run
from gpusim._values import axes_of, names_of, sets_of

__all__ = ["ConfigError", "DeadlockError", "Diagnostic", "Error", "Report", "Run", "TimeLimitError", "TraceError",
           "advise", "run", "sweep"]
__version__: str = _core.version

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Names = Union[None, str, Iterable[str]]


def _config_folders() -> List[str]:
    """GPUSIM_CONFIGS, then the package's own (in a build folder they are where the sources are)."""
    folders = [folder for folder in os.environ.get("GPUSIM_CONFIGS", "").split(":") if folder]
    own = Path(__file__).parent / "configs"
    return folders + [str(own)] if own.is_dir() else folders


def _threads(jobs: Optional[int]) -> int:
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    return jobs


def run(scenario: Scenario, set: Optional[Mapping[str, Any]] = None, variant: Names = None, *,
        steps: Optional[int] = None, seed: Optional[int] = None, timeline: bool = False,
        critical_path: bool = False) -> Report:
    """Simulates the variants of a scenario.

    `set` changes values by their path, as --set does: {"workload.batch": 8, "hardware.memory.bandwidth": "6 TB/s"}.
    `variant` picks one or several. `timeline` keeps what ran when (Run.timeline), `critical_path` explains it.

    Raises ConfigError (the scenario is wrong), DeadlockError (its host threads and streams wait for each other),
    TimeLimitError, TraceError.
    """
    return Report(_core.run(scenario, sets_of(set), names_of(variant), steps, seed, timeline, critical_path,
                            _config_folders()))


def sweep(scenario: Scenario, vary: Mapping[str, Any], mode: str = "grid", *, columns: Names = None,
          set: Optional[Mapping[str, Any]] = None, variant: Names = None, count: Optional[int] = None,
          steps: Optional[int] = None, seed: Optional[int] = None, jobs: Optional[int] = None,
          progress: Optional[Callable[[int, int], object]] = None) -> Dict[str, Any]:
    """Simulates a scenario at many points and gives a column for each path that varies and each figure.

    `vary` maps paths to their values: an iterable, or a str as --vary takes it ("1 us:8 us:500 ns"). `mode` is
    "grid" (every combination, the last path changes fastest), "zip" (values side by side) or "random" (`count` points
    of the grid, by `seed`). `columns` names figures as `gpusim run --format csv` does; "all" takes all. `jobs` is the
    number of threads, as many as there are cores if not given. `progress(done, total)` is called now and then.

    Returns {"point": ..., "variant": ..., PATH: ..., FIGURE: ..., "error": ...}, with one entry for each point and
    variant: array.array of numbers (an unknown one is NaN), lists of str. pandas.DataFrame and numpy.asarray take
    them. A point that fails has its message under "error", else None.

    Raises ConfigError for what can work at no point. Ctrl-C ends it.
    """
    if mode not in ("grid", "zip", "random"):
        raise ValueError(f"mode must be 'grid', 'zip' or 'random', not {mode!r}")
    if (count is not None) != (mode == "random"):
        raise ValueError("count goes with mode='random', and mode='random' needs it")
    return _core.sweep(scenario, axes_of(vary), mode, count or 0, names_of(columns), sets_of(set), names_of(variant),
                       steps, seed, _threads(jobs), _config_folders(), progress)


def advise(scenario: Scenario, variant: str = "", *, objective: str = "step", max_memory: str = "",
           max_latency: str = "", price: str = "", backend: Names = None, set: Optional[Mapping[str, Any]] = None,
           steps: Optional[int] = None, jobs: Optional[int] = None) -> Dict[str, Any]:
    """Searches for what to change in a scenario; the arguments are the options of `gpusim advise`, the answer is its
    JSON: "present", "next" (the change to make first, or None), "best", "single_changes", "front" and more.

    Raises ConfigError.
    """
    if objective not in ("step", "tokens", "cost"):
        raise ValueError(f"objective must be 'step', 'tokens' or 'cost', not {objective!r}")
    answer: Dict[str, Any] = json.loads(_core.advise(
        scenario, variant, objective, max_memory, max_latency, price, names_of(backend), sets_of(set), steps,
        _threads(jobs), _config_folders()))
    return answer
