"""Erase: every trace of memories goes, it is proved, and it does not come back."""
