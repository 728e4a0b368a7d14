"""Words that newcomers do not know, each explained in one sentence, which pages show behind a "?" (macros/ui.html)."""

from __future__ import annotations

TERMS = {
    "arm": "One configuration of a study: a model, a drafter, a number of samples and the other options.",
    "budget of interest": "A budget at which the race compares the arms: the study's own, its half and its quarter.",
    "coupled": "Draws the target's token and the draft's from the same random numbers, so that they agree more often.",
    "drafter": "Proposes the next tokens cheaply; the target model checks them in one pass and keeps the right ones.",
    "goodput": "Chooses how many tokens to draft so that the most accepted tokens per second are expected.",
    "registry key": "A short name of a model that Bassline knows how to download; the page Models lists them.",
    "sibling": "A drafter without a model of its own: it proposes text that other samples of the task have written.",
}
