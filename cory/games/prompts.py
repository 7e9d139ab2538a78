"""What a player is shown before it speaks: the rules, what was said, and what it has to do."""

from __future__ import annotations

import numpy as np

from cory.config.checks import require
from cory.config.game import GameTexts
from cory.games import GameRules
from cory.games.state import GameState

# how often a varied context has a heading over its rules, or leaves out who is to speak
HEADING = 0.2
NO_SPEAKER = 0.2


class GamePrompts:
    """The texts of one game. No context ends in white space."""

    def __init__(self, texts: GameTexts, game: GameRules) -> None:
        self.texts = texts
        self.game = game
        for key in ("rules", "instructions", "names"):
            given = getattr(texts, key)
            require(
                set(given) == set(game.roles),
                f"task.texts.{key} must have the roles {', '.join(game.roles)}, got "
                f"{', '.join(given) or 'none'}",
            )
        for role, text in texts.instructions.items():
            require(
                role == game.knows or "{word}" not in text,
                f"task.texts.instructions.{role} must not contain {{word}}: only the {game.knows} "
                f"knows it",
            )

    def context(self, position: GameState, role: str, style: int | None) -> str:
        """What `role` is shown; style: None, as games are played, or the seed of a variation."""
        if style is not None:
            return self._varied(position, role, style)
        texts = self.texts
        lines = "".join(
            texts.line.format(name=texts.names[said.role], text=said.text.strip())
            for said in position.utterances
        )
        return texts.layout.format(
            rules=texts.rules[role].format(max_turns=position.max_turns),
            history=texts.history.format(lines=lines) if lines else texts.start,
            instruction=self._instruction(position, role),
        )

    def messages(self, position: GameState, role: str) -> list[dict[str, str]]:
        """The same for a chat model behind an endpoint; own utterances are the assistant's."""
        rules = self.texts.rules[role].format(max_turns=position.max_turns)
        system = f"{rules}\n{self._instruction(position, role)}".strip()
        messages = [{"role": "system", "content": system}]
        if role == self.game.roles[0]:
            messages.append({"role": "user", "content": self.texts.opening})
        for said in position.utterances:
            own = "assistant" if said.role == role else "user"
            messages.append({"role": own, "content": said.text})
        return messages

    def _instruction(self, position: GameState, role: str) -> str:
        return self.texts.instructions[role].format(word=position.word)

    def _varied(self, position: GameState, role: str, style: int) -> str:
        """One of many ways to say the same; `style` decides which."""
        styles, draw = self.texts.styles, np.random.default_rng(style)
        rules, label, form, prefix = (
            options[draw.integers(len(options))]
            for options in (styles.rules, styles.labels, styles.formats, styles.prefixes)
        )
        first, second = self.game.roles
        other = second if role == first else first
        own_name, other_name = (
            name.format(own=role, other=other)
            for name in styles.speakers[draw.integers(len(styles.speakers))]
        )
        headed, unnamed = draw.random() < HEADING, draw.random() < NO_SPEAKER

        rules = rules.format(max_turns=position.max_turns)
        instruction = self._instruction(position, role)
        history = "".join(
            f"{prefix}{own_name if said.role == role else other_name}: {said.text.strip()}"
            for said in position.utterances
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
