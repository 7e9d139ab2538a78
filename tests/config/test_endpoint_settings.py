"""Settings of an endpoint: which are refused, and how an option is mounted."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cory.config.errors import lines_of
from tests.support.chat_server import CONFIG, KEY


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"key_variable": KEY}, "key_variable: must name an environment variable, in capitals"),
        ({"key_variable": "gsk_abc"}, "key_variable: must name an environment variable"),
        ({"base_url": "api.openai.com/v1"}, "base_url: must be http:// or https:// with a host"),
        ({"base_url": f"https://me:{KEY}@host/v1"}, "without user, password and query"),
        ({"base_url": f"https://host/v1?key={KEY}"}, "without user, password and query"),
        ({"base_url": "https://host:x/v1"}, "base_url: must be http:// or https:// with a host"),
        ({"base_url": "https://h/v1/chat/completions"}, "must end before /chat/completions"),
        ({"model": " "}, "model= : must not be empty"),
        ({"limit_name": "tokens"}, "limit_name=tokens: must be max_tokens or max_completion_tok"),
        ({"max_tokens": 0}, "max_tokens=0: must be at least 1"),
        ({"parallel": 0}, "parallel=0: must be at least 1"),
        ({"retries": -1}, "retries=-1: must be at least 0"),
        ({"timeout": 0}, "timeout=0: must be greater than 0"),
        ({"temperature": -1}, "temperature=-1: must be at least 0"),
        ({"top_p": 0}, "top_p=0: must be greater than 0"),
    ],
)
def test_a_wrong_setting_is_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        CONFIG.replace(**change)
    (line,) = lines_of(refusal.value)
    assert rule in line and KEY not in line


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
