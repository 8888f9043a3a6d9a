"""The door to JAX: its programs as terms, functions traced to them, and the names and lines that people know.

`trace.trace` takes what a person has (a function and its arguments) to a program of JAX, a mesh and the paths of
inputs and outputs; `convert.convert_with_origins` takes that program to terms; `lines.Lines` says where in the
person's files a term comes from. Importing this package needs JAX, and says so.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError(
        "checking a function needs JAX, which is not installed: run `pip install 'shardproof[jax]'`", name="jax"
    ) from error
