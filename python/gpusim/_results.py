# SPDX-License-Identifier: Apache-2.0
"""Results by the names of `gpusim run --format json`."""
from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Mapping, Union

from gpusim import _core


class Run:
    """What was found for one variant. Figures are attributes by their names in JSON: run.step_time_us,
    run.idle_us["dispatch"]; `run["idle_us.dispatch"]` says the same. docs/reading-a-report.md lists them."""

    variant: str
    step_time_us: float
    makespan_us: float
    steady: bool
    gpu_busy_us: float
    gpu_utilization: float
    idle_us: Dict[str, float]
    gpu_ops: float
    kernels: float
    memcpys: float
    memsets: float
    kernel_launches: float
    cuda_graph_launches: float
    graph_breaks: int
    mfu: Union[float, None]
    hfu: Union[float, None]
    model_flops: Union[float, None]
    hbm_bytes: Union[float, None]
    tokens_per_second: Union[float, None]
    peak_memory_bytes: int
    regime: str
    compile_time_s: float
    window: Dict[str, float]
    sm_active: Union[float, None]
    occupancy: Union[float, None]
    notes: List[str]

    def __init__(self, figures: Dict[str, Any], answer: "_core.Answer", index: int) -> None:
        self._figures = figures
        self._answer = answer
        self._index = index
        self._timeline: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._figures[name]
        except KeyError:
            raise AttributeError(f"no figure {name!r}; there are {', '.join(self._figures)}") from None

    def __getitem__(self, path: str) -> Any:
        value: Any = self._figures
        for key in path.split("."):
            value = value[key]
        return value

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._figures]

    def __repr__(self) -> str:
        return f"<gpusim.Run {self.variant!r}: {self.step_time_us} us a step>"

    def to_dict(self) -> Dict[str, Any]:
        """All figures, as in JSON."""
        return self._figures

    @property
    def timeline(self) -> Dict[str, Dict[str, Any]]:
        """What ran when, in order of start: tables "gpu_ops", "host_calls" and "memory", each a dict of columns that
        pandas.DataFrame and numpy.asarray take (array.array of numbers, lists of str). Times are in microseconds, and
        exact in whole picoseconds (start_ps, end_ps). "host_call" of a GPU op is the row of its launch."""
        if self._timeline is None:
            self._timeline = self._answer.timeline(self._index)
            if self._timeline is None:
                raise ValueError("there is no timeline: ask for it with run(..., timeline=True)")
        return self._timeline


class Report(Mapping[str, Run]):
    """What was found for the variants of a scenario, by their names. str() is what `gpusim run` prints."""

    def __init__(self, answer: "_core.Answer") -> None:
        self._answer = answer
        self._json = json.loads(answer.json())["scenarios"][0]
        self.runs: List[Run] = [Run(run, answer, i) for i, run in enumerate(self._json["runs"])]
        self.scenario: str = self._json["scenario"]
        self.file: str = self._json["file"]
        self.expectations: List[Dict[str, Any]] = self._json["expectations"]

    def __getitem__(self, variant: str) -> Run:
        for run in self.runs:
            if run.variant == variant:
                return run
        raise KeyError(f"{variant} (variants: {', '.join(self)})")

    def __iter__(self) -> Iterator[str]:
        return (run.variant for run in self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __str__(self) -> str:
        return self._answer.text()

    def __repr__(self) -> str:
        return f"<gpusim.Report {self.scenario!r}: {', '.join(self)}>"

    def to_dict(self) -> Dict[str, Any]:
        """The scenario's part of `gpusim run --format json`."""
        return self._json
