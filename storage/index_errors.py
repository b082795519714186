"""Why a refresh of the vector index did not hold; the texts are fixed (spec/refresh.md 3.3).

* RefreshError
  - SourceUnreadableError
  - SourceInvalidError
  - SourceChangedError
  - StageFailedError
  - IndexUnreadableError
  - PublicationLostError
  - IndexConflictError
  - IndexRevisionChangedError
  - VerifyFailedError
  - NoRowsEmbeddedError
  - EmbeddingFailedError
  - ConfigurationError
  - CancelledError
"""

from typing import ClassVar

from storage.errors import StorageError


class RefreshError(StorageError):
    """A refresh that was attempted and did not hold; what was served before is in its row."""

    text: ClassVar[str] = "the refresh failed"

    def __init__(self, **facts: object) -> None:
        """Keep figures only; the text is that of the class."""
        super().__init__(self.text, **facts)


class SourceUnreadableError(RefreshError):
    """The memories could not be read."""

    code = "source_error"
    text = "memory source could not be read"


class SourceInvalidError(RefreshError):
    """What the source gave is not what it claims to be."""

    code = "source_invalid"
    text = "memory source could not be verified"


class SourceChangedError(RefreshError):
    """Memories changed in every round of the run."""

    code = "source_changed"
    text = "memories changed during the run"


class StageFailedError(RefreshError):
    """The vectors could not be written, or not all of them are there."""

    code = "stage_failed"
    text = "vectors could not be written"


class IndexUnreadableError(RefreshError):
    """The vectors could not be counted or read."""

    code = "index_unreadable"
    text = "vectors could not be read"


class PublicationLostError(RefreshError):
    """Somebody gave the publication up while it was being made."""

    code = "publication_lost"
    text = "another run took over"


class IndexConflictError(RefreshError):
    """Another writer moved the pointer first."""

    code = "revision_conflict"
    text = "another run took over"


class IndexRevisionChangedError(RefreshError):
    """Another writer moved the pointer between the flip and its verification."""

    code = "index_revision_changed"
    text = "another run took over"


class VerifyFailedError(RefreshError):
    """The published vectors are not the ones that were staged; the pointer was emptied."""

    code = "verify_failed"
    text = "published vectors did not verify"


class NoRowsEmbeddedError(RefreshError):
    """Every row that could have been published failed or was deferred."""

    code = "no_rows_embedded"
    text = "no row could be embedded"


class EmbeddingFailedError(RefreshError):
    """A row failed, and the policy lets no row fail."""

    code = "embedding_failed"
    text = "embedding did not succeed"


class ConfigurationError(RefreshError):
    """The refresh cannot work as it is set up; nothing was read."""

    code = "invalid_configuration"
    text = "refresh configuration is not valid"


class CancelledError(RefreshError):
    """Somebody asked the run to end before its commit point."""

    code = "cancelled"
    text = "run was cancelled"
