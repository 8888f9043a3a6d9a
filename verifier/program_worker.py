"""A process of its own in which JAX is asked: JAX may end it, and what it was asked last is then known."""

from __future__ import annotations

import importlib
import os
from multiprocessing.connection import Connection
from typing import Any


def work(connection: Connection, errors: str, devices: int, engine: str, platform: str = "cpu") -> None:
    """Do what comes in, with an engine (`module:class`), until nothing more comes. Each task is the name of its method
    and the arguments; the answer is `("done", result)` or `("failed", traceback)`. Before something is given to the
    compiler: `("running", ...)`, with what the engine says. errors: a file for what the compiler prints. platform: of
    the devices, `cpu`, of which there are as many as are asked for, or `gpu`."""
    if platform == "cpu":
        os.environ["JAX_NUM_CPU_DEVICES"] = str(devices)
        os.environ["JAX_PLATFORMS"] = "cpu"
        flags = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # compile 3 times faster
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    else:
        os.environ.pop("JAX_PLATFORMS", None)
        os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"  # as many bits as the dtype has
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    import gc
    import signal
    import traceback

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the parent's
    module, _, name = engine.partition(":")
    made = getattr(importlib.import_module(module), name)
    gc.collect()
    gc.freeze()  # what JAX and the table consist of stays, and is not looked at again
    gc.set_threshold(50_000, 20, 100)
    doing = made(lambda *what: connection.send(("running", *what)))
    connection.send(("ready", doing.version))
    while True:
        try:
            task: tuple[str, Any, Any] | None = connection.recv()
        except EOFError:
            return
        if task is None:
            return
        name, *arguments = task
        try:
            connection.send(("done", getattr(doing, name)(*arguments)))
        except Exception:  # noqa: BLE001  # an error of ours is reported, not lost
            connection.send(("failed", traceback.format_exc()))
