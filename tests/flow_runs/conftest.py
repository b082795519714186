"""One Prefect test server for the suite, with a home of its own and nothing sent anywhere."""

from collections.abc import Iterator

import helpers.prefect_home  # noqa: F401 - before prefect
import pytest


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Start the server once; without the heartbeat a flow call takes a quarter of the time."""
    from prefect.settings import (  # noqa: PLC0415 - a second to import, only these tests need it
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_LOGGING_TO_API_BATCH_INTERVAL,
        temporary_settings,
    )
    from prefect.testing.utilities import prefect_test_harness  # noqa: PLC0415 - likewise

    settings = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_LOGGING_TO_API_BATCH_INTERVAL: 0.1}
    with prefect_test_harness(server_startup_timeout=120), temporary_settings(settings):
        yield
