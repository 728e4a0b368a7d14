"""The prompt text of a conversation, by the chat template of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateError

from decoding.models.loaded import LoadedModel
from decoding.request import RequestError


def render_chat(model: LoadedModel, messages: list[dict[str, str]], values: Mapping[str, Any]) -> str:
    """Return the messages in the model's template, which can read `values`, up to where the reply begins.

    Raises RequestError for messages or values that the template refuses.
    """
    try:
        text: str = model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **values)
    except TemplateError as error:  # many templates refuse an order of roles
        raise RequestError(f"messages do not fit the chat template of {model.name}: {error}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if not values:
            raise
        raise RequestError(f"chat_template_kwargs do not fit the chat template of {model.name}: {error}") from None
    return text
