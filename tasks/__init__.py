"""What to decide, how to apply it, how to report it; rules are pure."""
