"""Fresh identities of stores, vector directories and pointers: never equal to one that was."""

import uuid


def new_uuid() -> str:
    """Make a random uuid, as text."""
    return str(uuid.uuid4())
