"""The named SQL statements of the storage layer."""
