"""The command that repeats a study holds the whole study, whatever its names are."""

from __future__ import annotations

import shlex
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from app.studies import files
from app.studies.schemas import StudySpec

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\x7f\n\t\"'\\"), max_size=20).map(
    "a{}".format
)


@given(NAMES, st.sampled_from([0.25, 5.0, 1e-5]), st.booleans(), st.sampled_from([(), ("HumanEval/0", "it's/1")]))
def test_the_command_holds_the_whole_study(name, budget_s, race, task_ids):
    arms = [{"target": "smollm2-135m", "name": name}, {"target": "./a b", "drafter": "none", "n": 1, "top_p": 0.5}]
    spec = StudySpec(name=name, budget_s=budget_s, race=race, task_ids=task_ids, arms=arms)
    words = shlex.split(files.format_study_command(spec))
    assert words[-5:] == ["|", "bassline", "study", "run", "-"]
    assert StudySpec(**files.parse_study_file("\n".join(words[2:-5]).encode(), "input")) == spec


def test_a_shell_passes_the_study_on_as_it_is():
    spec = StudySpec(name="$(id) `id` \\n %s 'é\x7f", arms=[{"target": "a", "n": 1}, {"target": "a", "n": 2}])
    command = files.format_study_command(spec).removesuffix("bassline study run -") + "cat"
    passed_on = subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout
    assert StudySpec(**files.parse_study_file(passed_on, "input")) == spec
