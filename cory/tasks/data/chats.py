"""Prompts that are chat messages: their form, and what a chat template makes of them."""

from typing import Any

from cory.config import ConfigError, require
from cory.episode import Message, Prompt
from cory.models.tokenization import Texts

KEYS = ("role", "content")


def chat_messages(value: list[Any], where: str) -> list[Message]:
    """The messages of one prompt; ConfigError for another form.

    where: row and column, for refusals
    """
    require(bool(value), f"{where} is empty: a prompt needs a message")
    found = []
    for number, message in enumerate(value, 1):
        place = f"{where}, message {number}"
        require(isinstance(message, dict), f"{place} must have role and content, got {message}")
        others = [key for key, given in message.items() if key not in KEYS and given is not None]
        require(
            not others,
            f"{place} must have role and content alone, got '{''.join(map(str, others[:1]))}'",
        )
        for key in KEYS:
            text = message.get(key)
            require(isinstance(text, str), f"{place} must have a text as '{key}', got {text}")
        found.append({key: str(message[key]) for key in KEYS})
    last = found[-1]
    require(last["role"] == "user", f"{where} must end with the user's message, got {last['role']}")
    require(bool(last["content"].strip()), f"{where}: the last message is empty")
    return found


def chat_tokens(prompt: Prompt, texts: Texts) -> int:
    """Tokens of a chat in the template, without those that are around any single message.

    Raises ConfigError where the template refuses its messages.
    """
    try:
        return texts.tokens(prompt.opening) - texts.own_tokens
    except ConfigError as error:
        raise ConfigError(f"prompt {prompt.id}: {error}") from None
