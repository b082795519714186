"""Providers of vectors: what an embedder is, the executor that drives it, and the built-in ones."""
