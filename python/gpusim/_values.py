# SPDX-License-Identifier: Apache-2.0
"""Python values as `--set` and `--vary` take them."""
from __future__ import annotations

import json
from typing import Any, Iterable, List, Mapping, Optional, Tuple, Union

from gpusim import _core


def _plain(value: Any) -> Any:
    """For json: NumPy's arrays and numbers as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise TypeError(f"a value of type {type(value).__name__!r} has no place in a scenario")


def text_of(value: Any) -> str:
    """A str stands for itself ("4 TB/s", "h200", "{base: h200}"), everything else is written as JSON, which YAML
    reads."""
    return value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=False)


def sets_of(values: Optional[Mapping[str, Any]]) -> List[str]:
    return [f"{path}={text_of(value)}" for path, value in (values or {}).items()]


def names_of(names: Union[None, str, Iterable[str]]) -> List[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def axes_of(vary: Mapping[str, Any]) -> List[Tuple[str, List[str]]]:
    if not vary:
        raise ValueError("vary needs at least one path with its values")
    axes = []
    for path, values in vary.items():
        if isinstance(values, str):
            texts = _core.axis_values(f"{path}={values}")
        elif isinstance(values, Iterable) and not isinstance(values, Mapping):
            texts = [text_of(value) for value in values]
        else:
            texts = [text_of(values)]
        if not texts:
            raise ValueError(f"vary: {path!r} has no values")
        axes.append((path, texts))
    return axes
