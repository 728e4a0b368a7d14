"""Text grows with its tokens, never shows half a character, and ends before a stop string however it is cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from decoding.state.text import StreamedText, TextStream
from evaluation.prompting import BLOCK_STOP, CHAT_STOP, PROGRAM_STOP


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


SOME = st.text(alphabet="ab\n", max_size=5)


def append_all(streamed: StreamedText, pieces: list[str]) -> None:
    for piece in pieces:
        if streamed.append(piece):
            return
    streamed.close()


@given(pieces=st.lists(SOME, max_size=8), stop=st.lists(SOME.filter(bool), max_size=4))
def test_the_text_does_not_depend_on_how_it_was_cut(pieces: list[str], stop: list[str]) -> None:
    whole = "".join(pieces)
    as_pieces, as_characters, at_once = StreamedText(stop), StreamedText(stop), StreamedText(stop)
    append_all(as_pieces, pieces)
    append_all(as_characters, list(whole))
    append_all(at_once, [whole])
    results = {(each.text, each.stop_string) for each in (as_pieces, as_characters, at_once)}
    assert len(results) == 1
    ((text, stop_string),) = results
    assert whole.startswith(text + stop_string)
    assert bool(stop_string) == any(s in whole for s in stop)
    assert not any(s in text for s in stop)


@given(pieces=st.lists(SOME, max_size=8), stop=st.lists(SOME.filter(bool), max_size=4))
def test_what_was_shown_is_never_taken_back(pieces: list[str], stop: list[str]) -> None:
    streamed, shown = StreamedText(stop), [""]
    for piece in pieces:
        is_over = streamed.append(piece)
        shown.append(streamed.text)
        if is_over:
            break
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown))


def test_no_stop_string_of_a_prompt_hides_in_another_so_the_first_to_begin_is_the_first_to_be_complete() -> None:
    for stops in (BLOCK_STOP, PROGRAM_STOP, CHAT_STOP):
        assert not [(a, b) for a in stops for b in stops if a != b and 0 < b.find(a) < len(b) - len(a)]
