"""Prompts of word games: the rules, the utterances so far, and the instruction to a player."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cory.config.task import GameTexts
from cory.episode import Context, Message, from_user
from cory.games.rules import GameRules, GameState

# probabilities that a varied context has a heading over its rules, or ends without a speaker
HEADING = 0.2
NO_SPEAKER = 0.2
# how a player is shown a game: as one text; as messages with the rules from the system, or, where a
# chat template has no system prompt, at the beginning of the user's first one
Form = Literal["text", "system", "user"]


@dataclass(frozen=True)
class GamePrompts:
    """Makes the prompts of one game. No text ends in white space."""

    texts: GameTexts
    game: GameRules

    def context(
        self, position: GameState, role: str, style: int | None, form: Form = "text"
    ) -> Context:
        """The prompt of `role`.

        style: None: the prompt that games are played with; else the seed of a variation of it: of
            wording and layout of a text; of the rules' wording in a chat
        """
        if form != "text":
            return self._messages(position, role, style, form)
        if style is not None:
            return self._varied(position, role, style)
        texts = self.texts
        lines = "".join(
            texts.line.format(name=texts.names[utterance.role], text=utterance.text.strip())
            for utterance in position.utterances
        )
        return texts.layout.format(
            rules=texts.rules[role].format(max_turns=position.max_turns),
            history=texts.history.format(lines=lines) if lines else texts.start,
            instruction=self._instruction(position, role),
        )

    def _messages(
        self, position: GameState, role: str, style: int | None, form: Form
    ) -> list[Message]:
        """A chat that a user's message begins; the role's own utterances are the assistant's."""
        rules, said = self.texts.rules[role], position.utterances
        if style is not None:
            variants = self.texts.styles.rules
            rules = variants[np.random.default_rng(style).integers(len(variants))]
        rules = rules.format(max_turns=position.max_turns)
        system = f"{rules}\n{self._instruction(position, role)}".strip()
        opens = not said or said[0].role == role
        messages = [from_user(self.texts.opening)] if opens else []
        for utterance in said:
            author = "assistant" if utterance.role == role else "user"
            messages.append({"role": author, "content": utterance.text.strip()})
        if form == "system":
            return [{"role": "system", "content": system}, *messages]
        return [from_user(f"{system}\n\n{messages[0]['content']}"), *messages[1:]]

    def _instruction(self, position: GameState, role: str) -> str:
        return self.texts.instructions[role].format(word=position.word)

    def _varied(self, position: GameState, role: str, style: int) -> str:
        """A variation of the prompt's wording and layout, drawn by the seed `style`."""
        styles, draw = self.texts.styles, np.random.default_rng(style)
        rules, label, form, prefix = (
            options[draw.integers(len(options))]
            for options in (styles.rules, styles.labels, styles.formats, styles.prefixes)
        )
        (other,) = {*self.game.roles} - {role}
        own_name, other_name = (
            name.format(own=role, other=other)
            for name in styles.speakers[draw.integers(len(styles.speakers))]
        )
        headed, unnamed = draw.random() < HEADING, draw.random() < NO_SPEAKER

        rules = rules.format(max_turns=position.max_turns)
        instruction = self._instruction(position, role)
        history = "".join(
            f"{prefix}{own_name if utterance.role == role else other_name}: "
            f"{utterance.text.strip()}"
            for utterance in position.utterances
        )
        speaker = f"{prefix}{own_name}:"
        if form == "alpaca":
            heading = f"{prefix}{label}: " if headed else ""
            past = f"{prefix}{styles.history}:{history}" if history else ""
            end = f"{instruction.rstrip(' .')}:" if unnamed else f"{instruction}{speaker}"
            text = f"{heading}{rules}{past}{prefix}{end}"
        else:
            system = f"{prefix}{label}: {rules} {instruction}"
            parts = (system, history) if form == "chat" else (history, system)
            text = f"{parts[0]}{parts[1]}{speaker}"
        return text.strip()
