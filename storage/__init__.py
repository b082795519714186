"""Facts, transactions and compare-and-swap over DuckDB; no policy, no Prefect."""

from storage.gateway import Store, StoreReader, StoreWriter
from storage.stores import create_store, open_store

__all__ = ["Store", "StoreReader", "StoreWriter", "create_store", "open_store"]
