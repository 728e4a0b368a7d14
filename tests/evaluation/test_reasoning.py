"""Only a tag at the level of the answer opens or ends reasoning; a tag in a program stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.datasets import Task
from evaluation.extraction import extract
from evaluation.normalization import extract_answer_text
from tests.thorough import scale_examples

SPLIT = Task("T/0", "def answer(text):\n", "answer", "def check(c):\n    assert c('a</think> b') == 'b'\n", "")
CODE = '    return text.split("</think>")[-1].strip()\n'

PROGRAMS = {
    "a string": CODE,
    "a string in the other quotes": CODE.replace('"', "'"),
    "a comment": "    # everything before </think>\n    return text\n",
    "a comment that ends with it": "    return text  # don't keep </think>\n",
    "a comment after a quote in a comment": "    # don't\n    # </think>\n    return text\n",
    "a docstring": '    """Remove\n    </think>\n    and what is before it."""\n    return text\n',
    "a docstring of one line": '    """Cut at </think>"""\n    return text\n',
    "a docstring with a fence": '    """It removes:\n\n```\n</think>\n```\n    """\n    return text\n',
    "a triple-quoted string": "    mark = '''\n<think>\n</think>\n'''\n    return text.replace(mark, '')\n",
    "an f-string": "    return f\"{text.split('</think>')[-1]}\"\n",
    "an f-string with the same quotes": '    return f"{text.split("</think>")[-1]}"\n',
    "an f-string over several lines": '    return f"""\n</think>\n{text}"""\n',
    "a raw string": "    return re.sub(r'<think>.*?</think>', '', text)\n",
    "a string with a quote in it": "    return text.replace('\\'</think>', \"it's </think>\")\n",
    "a string with comment signs in it": "    return '# // </think>', \"/* </think>\"\n",
    "a prompt template": 'PROMPT = """\n<think>\n{}\n</think>\n"""\n\ndef f(x):\n    return PROMPT.format(x)\n',
    "JavaScript": 'function f(t) {\n  return t.split("</think>").pop(); // after </think>\n}\n',
    "a template of JavaScript": "function f(t) {\n  const mark = `\n<think>\n</think>\n`;\n  return t + mark;\n}\n",
    "a tagged template": "const f = (t) => html`\n</think>${t}`;\n",
    "a regular expression of JavaScript": ('const f = (t) => t.replace(/["\']/g, "").split("a</think>b").pop();\n'),
    "a block comment": "/*\n * The text after\n </think>\n */\nfunction f(t) { return t; }\n",
    "Go": 'func f(t string) string {\n\tm := `\n</think>\n`\n\treturn strings.Split(t, "</think>"+m)[1]\n}\n',
    "Rust": "fn f<'a>(t: &'a str, s: &'a str) -> &'a str {\n    t.split(\"</think>\").last().unwrap()\n}\n",
    "a raw string of Rust": 'fn f(t: &str) -> bool {\n    t == r#"\n"</think>\n"#\n}\n',
    "a string of Rust over two lines": 'fn f(t: &str) -> bool {\n    t == "one\n</think>"\n}\n',
    "a character of Rust": 'fn f(t: &str) -> bool {\n    t.contains(\'"\') && t.contains("</think>")\n}\n',
    "Java": ('class A {\n  String f(String t) {\n    return t.split("</think>")[1] + """\n      </think>\n"""; }\n}\n'),
    "C++": 'std::string f() {\n  auto m = R"x(\n</think>\n)x";\n  return m + std::string("</think>");\n}\n',
    "a fence": f"```python\ndef answer(text):\n{CODE}```\nIt cuts at `</think>`.\n",
    "a sentence after the fence": f"```python\ndef answer(text):\n{CODE}```\nIt cuts at </think> and strips.\n",
    "a fence with the tag alone": "```\n<think>\nthoughts\n</think>\n```\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_a_tag_is_unchanged(name):
    assert extract_answer_text(PROGRAMS[name]) == PROGRAMS[name]


THOUGHTS = {
    "short ones": "Let's see.\n",
    "an apostrophe": "I don't know the users' input, 'x' isn't one.\n",
    "the tag in a string": f"I write\n{CODE}and that's it.\n",
    "the tag in inline code": "It cuts at `</think>` and strips.\n",
    "the tag in a fence": f"```python\n{CODE}```\n",
    "the tag alone in a fence": "```\n<think>\n</think>\n```\nGood.\n",
    "the tag in a sentence": "It has to cut at </think> and strip.\n",
    "nothing": "\n",
}
OPEN_THOUGHTS = {
    "an open fence": "```python\ndef answer(text):\n",
    "an open docstring": 'The prompt is\ndef answer(text):\n    """Cut.\n',
    "an open comment": "In C: /* not closed\n",
}
ENDS = {"on its own line": "\n</think>\n\n", "in the last line": "Done.</think>\n", "without a line": "Done.</think>"}
ANSWERS = {name: PROGRAMS[name] for name in ("a string", "a docstring", "an f-string", "a comment", "Rust", "a fence")}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("thoughts", THOUGHTS | OPEN_THOUGHTS)
def test_thoughts_end_at_the_tag_of_the_answers_level(thoughts, end, answer):
    if (thoughts, answer) == ("an open docstring", "a docstring"):
        pytest.skip("which of the two tags ends the thoughts cannot be known")
    text = (THOUGHTS | OPEN_THOUGHTS)[thoughts] + ENDS[end]
    rest = extract_answer_text(f"<think>\n{text}{ANSWERS[answer]}")
    assert rest.lstrip("\n") == ANSWERS[answer]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("thoughts", THOUGHTS)
def test_thoughts_that_the_template_opened_end_there_too(thoughts, end, answer):
    assert extract_answer_text(f"{THOUGHTS[thoughts]}{ENDS[end]}{ANSWERS[answer]}").lstrip("\n") == ANSWERS[answer]


@pytest.mark.parametrize("thoughts", THOUGHTS)
def test_thoughts_without_an_end_leave_what_was_before_them(thoughts):
    assert extract_answer_text(f"<think>\n{THOUGHTS[thoughts]}") == ""
    assert extract_answer_text(f"{CODE}<think>\n{THOUGHTS[thoughts]}") == CODE


def test_several_blocks_and_all_tags_are_removed():
    text = "<think>\na\n</think>\nx = 1\n<think>\nb\n</think>\ny = 2\n"
    assert extract_answer_text(text) == "\nx = 1\n\ny = 2\n"
    assert extract_answer_text(f"<reasoning>\na\n</reasoning>\n<thinking>b</thinking>{CODE}").strip() == CODE.strip()


@pytest.mark.parametrize("mode", ["completion", "infill"])
def test_the_program_is_whole_in_completion_and_infilling(mode):
    task = SPLIT if mode == "completion" else Task("T/1", SPLIT.prompt, "answer", "", "", suffix="\nx = 1\n")
    for before in ("", "<think>\nI split.\n</think>\n"):
        program = extract(task, before + CODE, mode).program
        assert CODE in program
        assert "I split" not in program
        compile(program, "answer", "exec")


@pytest.mark.parametrize("language", ["javascript", "typescript", "go", "rust", "java", "cpp"])
def test_the_program_is_whole_in_other_languages(language):
    heads = {"go": "func f(t string) string {\n", "rust": "fn f(t: &str) -> &str {\n"}
    heads |= {"java": "class Solution {\n    static String f(String t) {\n", "cpp": "std::string f(std::string t) {\n"}
    task = Task("T/2", heads.get(language, "function f(t) {\n"), "f", "", "", language=language)
    body = '    g("</think>"); // before </think>\n    return t;\n'
    for before in ("", "I don't split.\n</think>\n"):
        program = extract(task, before + body, "completion").program
        assert 'g("</think>");' in program
        assert "split" not in program


TAG = st.sampled_from(["</think>", "<think>", "\n</think>\n", "\n<think>\n", "</thinking>"])
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"], include_characters=".,:;()[]{}#/<>=+-*'"))
CONTENT = st.lists(st.one_of(TAG, WORDS), min_size=1, max_size=5).map("".join)
LINE = CONTENT.map(lambda text: text.replace("\n", " "))
STRINGS = st.one_of(
    CONTENT.map(repr),
    CONTENT.map(lambda text: f'"""{text}"""'),
    CONTENT.map(lambda text: "'''" + text.replace("'", "") + "'''"),
    LINE.map(lambda text: '"' + text + '"'),
    LINE.map(lambda text: "f'" + text.translate({ord(c): None for c in "'{}"}) + "'"),
)
STATEMENTS = st.one_of(
    STRINGS.map(lambda text: f"    x = {text}\n"),
    STRINGS.map(lambda text: f"    {text}\n"),
    st.tuples(STRINGS, STRINGS).map(lambda texts: f"    x = y.replace({texts[0]}, {texts[1]})[-1]\n"),
    LINE.map(lambda text: f"    # {text}\n"),
    st.tuples(STRINGS, LINE).map(lambda texts: f"    return {texts[0]}  # {texts[1]}\n"),
    st.just("    if x < 1 and y // 2 > 3:\n        pass\n"),
)


@settings(max_examples=scale_examples(300), deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=6))
def test_any_program_without_thoughts_is_unchanged(statements):
    program = "def f(x, y):\n" + "".join(statements)
    compile(program + "    pass\n", "program", "exec")
    assert extract_answer_text(program) == program
    body = "".join(statements)
    assert extract_answer_text(f"<think>\nLet's see.\n</think>\n{body}") == f"\n{body}"
