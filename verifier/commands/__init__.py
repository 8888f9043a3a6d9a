"""The commands of `shardproof`, a room each: `verifier.cli` lists them. A door to click."""
