"""Readers of import formats: each yields records as plain values with the place they came from."""
