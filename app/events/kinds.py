"""The types of events in a run's stream and what each carries. Clients rely on these names.

    state    {"state"}                                       the run changed state; a final one ends the stream
    loading  {"message"}                                     a model is fetched or loaded
    task     {"task_id", "position", "state", "error"?}      a task changed state
    tokens   {"task_id", "elapsed_s", "tokens", "finished"}  while decoding, at most 4 a second
    text     {"task_id", "samples": [{"index", "text", "pieces", "origins", "n_tokens", "mean_logprob", "elapsed_s",
             "finish_reason"}]}                              completions only: whole texts so far, at most 10 a second
    sample   {"task_id", "index", "finish_reason", "n_tokens", "mean_logprob", "finished_s"}
    graded   {"task_id", "index", "verdict"}

`origins` has one letter per token: d if the drafter proposed it, t if the target supplied it; `pieces` is the text cut
where that changes, as [letter, text].
"""

STATE = "state"
LOADING = "loading"
TASK = "task"
TOKENS = "tokens"
TEXT = "text"
SAMPLE = "sample"
GRADED = "graded"
