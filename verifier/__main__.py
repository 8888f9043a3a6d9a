"""`python -m verifier` is `shardproof`."""

from __future__ import annotations

import sys


def run() -> None:
    """The command. An interrupt ends it alike before the command is read: what it needs is imported here."""
    try:
        from verifier.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted\n")
        sys.exit(130)
    main(prog_name="shardproof")


if __name__ == "__main__":
    run()
