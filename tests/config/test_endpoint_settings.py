"""Where the key of an endpoint may go without encryption."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.support.chat_server import CONFIG


@pytest.mark.parametrize(
    "host",
    ["api.example.com", "10.0.0.7", "localhost.example.com", "[fe80::1]"],
)
def test_a_key_goes_to_other_machines_only_encrypted(host: str) -> None:
    open_to_all = {"base_url": f"http://{host}:8000/v1"}
    with pytest.raises(ValidationError, match=r"without encryption: use https://, or key_variab"):
        CONFIG.replace(**open_to_all)
    CONFIG.replace(**open_to_all, plain_http=True)
    CONFIG.replace(**open_to_all, key_variable=None)
    CONFIG.replace(base_url=f"https://{host}/v1")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.0.1", "[::1]", "LOCALHOST"])
def test_a_key_may_go_to_this_machine_as_it_is(host: str) -> None:
    config = CONFIG.replace(base_url=f"http://{host}:8000/v1")  # refused where it is another one
    assert config.key_variable is not None and not config.plain_http
