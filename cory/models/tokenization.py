"""Token ids of texts, the same for responses that are sampled, learnt and read again."""

from cory.config import ConfigError
from cory.models.team import Team

# a sample context and response, to find what stands between the tokens of the two
CONTEXT, RESPONSE = "Response:", "word"


class Codec:
    """The tokens of contexts and of responses that were not sampled.

    A response stands behind its context with one space; some tokenizers count the space to the
    word, others put it there by themselves.
    """

    def __init__(self, team: Team, longest: int) -> None:
        """longest: the most tokens of a context."""
        self.team = team
        self.longest = longest
        self.gap = "" if team.config.chat else self._gap()

    def _gap(self) -> str:
        tokenizer = self.team.tokenizer
        whole = tokenizer(f"{CONTEXT} {RESPONSE}")["input_ids"]
        context = tokenizer(CONTEXT)["input_ids"]
        for gap in (" ", ""):
            if [*context, *self._bare(gap + RESPONSE)] == whole:
                return gap
        raise ConfigError(
            f"{self.team.group}={self.team.config.name}: its tokenizer reads a context and a "
            f"response together otherwise than one after the other, so nothing can be learnt from "
            f"texts"
        )

    def fits(self, context: str) -> bool:
        """Whether a context is not too long."""
        return self.team.tokens(context) <= self.longest

    def context_ids(self, context: str) -> list[int]:
        """Token ids of a context in the model's chat template, if any; with its BOS, if any."""
        ids: list[int] = self.team.tokenizer(self.team.render(context))["input_ids"]
        return ids

    def response_ids(self, text: str) -> list[int]:
        """Token ids of a response, with EOS as if the model had ended by itself."""
        return [*self._bare(self.gap + text.strip()), int(self.team.tokenizer.eos_token_id)]

    def _bare(self, text: str) -> list[int]:
        ids: list[int] = self.team.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
