"""Prompts that are chat messages: their form, and what a chat template makes of them."""

from typing import Any

from cory.config import ConfigError, require
from cory.episode import Message, Prompt
from cory.models.tokenization import Texts
from cory.tasks.data.tables import is_blank

KEYS = {"role", "content"}


def chat_messages(value: list[Any], where: str) -> list[Message]:
    """The messages of one prompt; ConfigError for another form.

    where: row and column, for refusals
    """
    messages = []
    for number, message in enumerate(value, 1):
        given = message.items() if isinstance(message, dict) else ()
        texts = {key: text for key, text in given if text is not None}
        require(
            set(texts) == KEYS and all(isinstance(text, str) for text in texts.values()),
            f"{where}, message {number} must have a text as role and as content alone, got "
            f"{message}",
        )
        messages.append(texts)
    require(
        bool(messages) and messages[-1]["role"] == "user" and not is_blank(messages[-1]["content"]),
        f"{where} must end with a message of the user's that is not empty",
    )
    return messages


def chat_tokens(prompt: Prompt, texts: Texts) -> int:
    """Tokens of a chat in the template, without those that are around any single message.

    Raises ConfigError where the template refuses its messages.
    """
    try:
        return texts.tokens(prompt.opening) - texts.own_tokens
    except ConfigError as error:
        raise ConfigError(f"prompt {prompt.id}: {error}") from None
