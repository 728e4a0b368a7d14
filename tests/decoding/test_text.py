"""Text grows with its tokens, never shows half a character, and ends before a stop string wherever tokens cut it."""

from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from decoding.state.text import TextStream


def push_all(stream: TextStream, tokens: list[int]) -> int:
    for n, token in enumerate(tokens, start=1):
        if stream.push(token):
            return n
    return len(tokens)


@given(text=st.text(max_size=40))
def test_the_text_is_what_the_tokenizer_decodes(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    tokens = tokenizer(text)["input_ids"]
    stream = TextStream(tokenizer, tokenizer("prompt")["input_ids"], ())
    push_all(stream, tokens)
    assert stream.text == text


@given(before=st.text(alphabet="ab\n`", max_size=12), after=st.text(alphabet="ab\n`", max_size=5))
def test_a_stop_string_ends_the_text_at_its_first_place(
    tokenizer: PreTrainedTokenizerFast, before: str, after: str
) -> None:
    whole = before + "\n```" + after
    stream = TextStream(tokenizer, [], ("\n```", "ba\n"))
    n = push_all(stream, tokenizer(whole)["input_ids"])
    ends = [whole.find(s) + len(s) for s in ("\n```", "ba\n") if s in whole]
    assert n == min(ends)
    assert stream.text == min((whole[: whole.find(s)] for s in ("\n```", "ba\n") if s in whole[:n]), key=len)
    assert whole[:n] == stream.text + stream.stop_string


def test_the_beginning_of_a_stop_string_is_held_back_until_it_is_decided(tokenizer: PreTrainedTokenizerFast) -> None:
    stream = TextStream(tokenizer, [], ("\n```",))
    shown = []
    for token in tokenizer("x\n`y\n``")["input_ids"]:
        stream.push(token)
        shown.append(stream.text)
    assert shown == ["x", "x", "x", "x\n`y", "x\n`y", "x\n`y", "x\n`y"]
    stream.close()
    assert stream.text == "x\n`y\n``"
