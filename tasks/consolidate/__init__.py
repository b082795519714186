"""consolidate: merge what says the same, report what contradicts, and take merges back."""
