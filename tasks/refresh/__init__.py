"""The refresh job: keep a vector index equal to the active memories, and prove it."""
