"""The programs that are measured: the small Llama whose derivatives `shardproof agree --backward` compares too."""

from verifier.with_jax.backward_programs.transformer import AXES, BATCH, TOKENS, Llama

__all__ = ["AXES", "BATCH", "TOKENS", "Llama"]
