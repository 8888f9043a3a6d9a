"""Two processes with a device each, and the mesh of both: the seeds' gradients are those of one process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WORKER = Path(__file__).with_name("process_worker.py")
PATIENCE = 300
"""Seconds; it takes four where nothing else runs."""


@pytest.fixture(scope="module")
def said() -> list[Any]:
    """What each process says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    started = [
        subprocess.Popen([sys.executable, str(WORKER), str(number), "2", address],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(2)
    ]  # fmt: skip
    try:
        outputs = [one.communicate(timeout=PATIENCE) for one in started]
    finally:
        for one in started:
            one.kill()
    if any(one.returncode == 77 for one in started):
        pytest.skip(outputs[0][1].splitlines()[-1])
    assert [one.returncode for one in started] == [0, 0], outputs
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def values(*shape: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.arange(np.prod(shape)).reshape(shape) % 7 / 8 - 0.25


def gradients(times: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Of the sum of tanh(k x w) by w and by x: k xᵀ (1 - t²), and k (1 - t²) wᵀ."""
    w, x = values(4, 2), values(8, 4)
    slope = times * (1 - np.tanh(times * x @ w) ** 2)
    return x.T @ slope, slope @ w.T


@pytest.mark.parametrize("name", ["loss", "loss_of_reduced", "used_twice", "per_device"])
def test_gradients_on_two_processes(said: list[Any], name: str) -> None:
    """The weight's is whole in both, of the batch each has its half."""
    ends = [gradients(times) for times in ((1, 2) if name == "used_twice" else (1,))]
    of_w, of_x = (np.sum(one, axis=0) for one in zip(*ends, strict=True))
    for number, one in enumerate(said):
        assert (one["devices"], one["own"]) == (2, 1)
        (w_type, w_block), (x_type, x_block) = one["found"][name]
        assert (w_type, x_type) == ("float32[4,2]", "float32[8@X,4]")
        np.testing.assert_allclose(w_block, of_w, rtol=1e-5)
        np.testing.assert_allclose(x_block, of_x[4 * number : 4 * number + 4], rtol=1e-5, atol=1e-6)
