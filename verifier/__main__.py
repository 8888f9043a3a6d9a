"""`python -m verifier` is `shardproof`."""

from verifier.cli import main

main(prog_name="shardproof")
