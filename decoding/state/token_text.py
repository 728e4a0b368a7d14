"""The texts of single tokens: of alternatives at a position, and of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decoding.models.loaded import LoadedModel
from decoding.request import RequestError, TopTokens

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LONGEST_CHARACTER = 32  # tokens; text still unfinished after this many is not a character


class TokenTexts:
    """The text of any token, as it reads within a line."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        # Decoded alone, a token of SentencePiece loses the blank that it begins with.
        self._before: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"][-1:]
        self._shown = len(decode_tokens(tokenizer, self._before))
        self._known: dict[int, str] = {}

    @classmethod
    def get_for_model(cls, model: LoadedModel) -> TokenTexts:
        """Return the texts of a model's tokens, which are cached with it."""
        return model.compute_once("token_texts", lambda: cls(model.tokenizer))

    def __call__(self, token: int) -> str:
        """Return the text of a token; for part of a character its name in the vocabulary, so that texts differ."""
        if token not in self._known:
            text = decode_tokens(self._tokenizer, [*self._before, token])[self._shown :]
            self._known[token] = self._tokenizer.convert_ids_to_tokens(token) if _REPLACEMENT in text else text
        return self._known[token]

    def name_top_tokens(self, tokens: Sequence[tuple[int, float]]) -> TopTokens:
        """Return the texts and log-probabilities of (token, log-probability)."""
        return tuple((self(token), logprob) for token, logprob in tokens)


def split_into_texts(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    """Return the text that each token adds, special ones included: joined, they are the decoded tokens.

    A token that only begins a character adds "".
    """
    texts: list[str] = []
    window: list[int] = []
    shown = ""
    for token in tokens:
        window.append(token)
        text = decode_tokens(tokenizer, window)
        if text.endswith(_REPLACEMENT) and len(window) < _LONGEST_CHARACTER:
            texts.append("")
            continue
        texts.append(text[len(shown) :])
        window = window[-4:]
        shown = decode_tokens(tokenizer, window)
    return texts


def decode_tokens(tokenizer: Any, tokens: Sequence[int]) -> str:
    """Return the text of tokens, special ones included."""
    text: str = tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def check_known(model: LoadedModel, tokens: Sequence[int]) -> None:
    """Raise RequestError for an id that is not a token of the model."""
    for token in tokens:
        if not 0 <= token < model.vocab_size:
            raise RequestError(
                f"prompt holds the token id {token}, and {model.name} has the ids 0 to {model.vocab_size - 1}: "
                "use this model's tokenizer"
            )
