"""Settings of an endpoint: which are refused, and how an option is mounted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from cory.config import ConfigError, EndpointConfig
from tests.support.chat_server import CONFIG, KEY
from tests.support.composing import compose_config


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key_variable": KEY}, "must name an environment variable, in capitals"),
        ({"key_variable": "gsk_abc"}, "must name an environment variable, in capitals"),
        ({"base_url": "api.openai.com/v1"}, "base_url must be http:// or https:// with a host"),
        ({"base_url": f"https://me:{KEY}@host/v1"}, "without user, password and query"),
        ({"base_url": f"https://host/v1?key={KEY}"}, "without user, password and query"),
        ({"base_url": "https://host:x/v1"}, "base_url must be http:// or https:// with a host"),
        ({"base_url": "https://h/v1/chat/completions"}, "must end before /chat/completions, got h"),
        ({"model": " "}, "algorithm.endpoint.model must name a model, got ' '"),
        ({"limit_name": "tokens"}, "limit_name must be one of max_tokens, max_completion_tokens"),
        ({"max_tokens": 0}, "algorithm.endpoint.max_tokens must be at least 1, got 0"),
        ({"parallel": 0}, "algorithm.endpoint.parallel must be at least 1, got 0"),
        ({"retries": -1}, "algorithm.endpoint.retries must be at least 0, got -1"),
        ({"timeout": 0}, "algorithm.endpoint.timeout must be above 0 and finite, got 0"),
        ({"temperature": -1}, "algorithm.endpoint.temperature must be at least 0, got -1"),
        ({"top_p": 0}, "algorithm.endpoint.top_p must lie in (0, 1], got 0"),
    ],
)
def test_a_wrong_setting_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        replace(CONFIG, **change)
    assert said in str(refusal.value) and KEY not in str(refusal.value)


@pytest.mark.parametrize(
    "host",
    ["api.example.com", "10.0.0.7", "localhost.example.com", "[fe80::1]"],
)
def test_a_key_goes_to_other_machines_only_encrypted(host: str) -> None:
    open_to_all = {"base_url": f"http://{host}:8000/v1"}
    with pytest.raises(ConfigError, match=r"without encryption: use https://, set key_variable=nu"):
        replace(CONFIG, **open_to_all)
    replace(CONFIG, **open_to_all, plain_http=True)
    replace(CONFIG, **open_to_all, key_variable=None)
    replace(CONFIG, base_url=f"https://{host}/v1")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.0.1", "[::1]", "LOCALHOST"])
def test_a_key_may_go_to_this_machine_as_it_is(host: str) -> None:
    config = replace(CONFIG, base_url=f"http://{host}:8000/v1")  # refused where it is another one
    assert config.key_variable is not None and not config.plain_http


@pytest.mark.slow
def test_an_option_is_mounted_where_an_algorithm_has_room_for_it(tmp_path: Path) -> None:
    (tmp_path / "algorithm").mkdir()
    text = "defaults: [cory, _self_]\nendpoint: null\n"
    (tmp_path / "algorithm" / "mine.yaml").write_text(text)
    base = [f"hydra.searchpath=[file://{tmp_path}]", "algorithm=mine"]
    assert compose_config(*base).algorithm.endpoint is None
    composed = compose_config(
        *base, "+endpoint@algorithm.endpoint=openai", "algorithm.endpoint.model=gpt-4o"
    )
    merged = OmegaConf.merge(OmegaConf.structured(EndpointConfig), composed.algorithm.endpoint)
    config = OmegaConf.to_object(merged)
    assert isinstance(config, EndpointConfig)
    assert (config.model, config.key_variable) == ("gpt-4o", "OPENAI_API_KEY")
    own = compose_config(*base, "+endpoint@algorithm.endpoint=local").algorithm.endpoint
    assert own.key_variable is None and own.retries == config.retries
    with pytest.raises(ConfigError, match=r"algorithm\.endpoint\.model must name a model, got ''"):
        OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(EndpointConfig), own))
