"""Kernels that are watched while they run: what of a failure is theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calculus.types import SHORT_NAMES, array_type


def raised(error: Exception) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Watched:
    """A kernel of somebody's. failure: what it raised last. said: the same in words, with what it ran on.

    One that runs on numbers and makes something else than arrays, or more or fewer of them than at first, fails by
    `TypeError`, and one that exits by `RuntimeError`.
    """

    def __init__(self, name: str, kernel: Callable[..., Any]) -> None:
        self.name, self.kernel = name, kernel
        self.failure: Exception | None = None
        self.said = ""
        self.count: int | None = None

    def __call__(self, functions: Any, parameters: Any, *operands: Any) -> Any:
        """What it makes of these; `functions` is numpy, or what stands in its place."""
        try:
            return self._checked(functions, self.kernel(functions, parameters, *operands))
        except SystemExit as error:
            failure: Exception = RuntimeError(f"it exits with {error.code}")
        except Exception as error:  # noqa: BLE001  # it is handed on
            failure = error
        self.failure = failure
        if functions is np:
            types = " ".join(str(array_type(SHORT_NAMES.get(one.dtype.name, "?"), one.shape)) for one in operands)
            self.said = f"the kernel of {self.name} fails on {types}: {raised(failure)}"
        raise failure

    def _checked(self, functions: Any, found: Any) -> Any:
        """What it made. Raises `TypeError`."""
        if functions is not np:
            return found
        made = found if isinstance(found, list | tuple) else [found]
        self.count = len(made) if self.count is None else self.count
        for one in made:
            if np.asarray(one).dtype.name not in SHORT_NAMES:
                raise TypeError(f"it makes {np.asarray(one).dtype} of numbers")
        if len(made) != self.count:
            raise TypeError(f"it makes {len(made)} arrays of numbers, and made {self.count}")
        return found
