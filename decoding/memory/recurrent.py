"""The cache of a hybrid model: beside its pages, each row has a slot with the states of its recurrent layers.

A rejected token has changed a recurrent state, and it cannot be cut off as keys and values can. So a forward changes no
slot: it keeps what each token writes, and `commit` advances the slots over the accepted tokens alone
(`kernels/recurrence.py`). A forward whose tokens all stay, a chunk of a prompt, is computed by transformers' chunked
form and leaves its last state to the commit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import torch

from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.memory.states import StatePool, count_slots
from decoding.state.row_lists import take_out
from kernels import recurrence
from kernels.recurrence import StateRows, StateWrites, TokenInputs

RunChunks = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Computes all tokens of one row from its state [1, H, K, V]: what they read [N, H, V], and the state after them."""


class Recurrence(Protocol):
    """What computes rounds: `kernels/recurrence.py`, or the kernel that does the same."""

    def run_tokens(
        self, states: torch.Tensor, rows: StateRows, tokens: TokenInputs
    ) -> tuple[torch.Tensor, StateWrites]:
        """Return what each token reads and what it writes."""

    def advance_states(self, states: torch.Tensor, rows: StateRows, writes: StateWrites) -> None:
        """Advance the states of the rows over their tokens."""


@dataclass(slots=True)
class _Prompt:
    """The state at the end of a prompt, for rows that will begin with it."""

    slot: int
    length: int
    n_rows: int = 1


class _LastState(NamedTuple):
    """The states of a layer after a forward that keeps all of its tokens."""

    state: torch.Tensor


class _ConvInputs(NamedTuple):
    """The packed tokens of a forward as a convolution reads them."""

    inputs: torch.Tensor


@dataclass(slots=True)
class _RowSlot:
    """The slot of a row, its place in the last forward, if it was in it, and the state at the end of its prompt.

    `newest` is the key of the last state that the row kept, if a later one of its prompt replaces it.
    """

    number: int
    forward_row: int | None = None
    prompt: _Prompt | None = None
    newest: bytes | None = None


class RecurrentCache(RaggedCache):
    """A `RaggedCache` whose rows also have recurrent states: in slots of `pool.states`, which may limit the rows."""

    def __init__(self, *args: Any, kernel: Recurrence = recurrence, chunk: int = 1, **options: Any) -> None:
        """Take what `RaggedCache` takes. `kernel` computes rounds.

        States are kept where both a page and a `chunk` of a prefill end: a prompt that begins there has the chunks that
        it has without.
        """
        super().__init__(*args, **options)
        self.recurrence = kernel
        self._kept_every = math.lcm(chunk, self.pool.page_size)
        if self.pool.states is None:
            self.pool.states = StatePool(count_slots(self.max_rows))
        self._states = self.pool.states
        self.max_rows = min(self.max_rows, self._states.n_slots - 1)
        self._row_slots: list[_RowSlot] = []
        self._slots_aside: list[_RowSlot] = []
        self._forward: StateRows | None = None
        self._is_whole = False
        self._uncommitted: dict[Hashable, StateWrites | _LastState | _ConvInputs] = {}

    # A forward ----------------------------------------------------------------------------------------------------

    def begin(self, counts: Sequence[int], first_row: int = 0, *, whole: bool = False) -> Layout:
        """Lay out a forward. With `whole` it has one row, all tokens of which will be committed."""
        layout = super().begin(counts, first_row)
        for slot in self._row_slots:
            slot.forward_row = None
        rows = self._row_slots[first_row : first_row + len(counts)]
        for r, slot in enumerate(rows):
            slot.forward_row = r
        starts = tuple([0, *accumulate(counts)][:-1])
        self._forward = StateRows(tuple(slot.number for slot in rows), starts, tuple(counts), self.device)
        self._is_whole = whole
        self._uncommitted = {}
        return layout

    def convolve(
        self, layer: Hashable, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the causal convolution [N, C] of the packed tokens `x` [N, C], each after its row's past."""
        C, width = weight.shape
        self._uncommitted[layer] = _ConvInputs(x)
        return recurrence.convolve(self._buffer(layer, (width - 1, C), x.dtype), self._rows_now, x, weight, bias)

    def recur(
        self, layer: Hashable, shape: tuple[int, int, int], tokens: Callable[[], TokenInputs], whole: RunChunks | None
    ) -> torch.Tensor:
        """Return what the packed tokens read of their rows' states, [N, H, V]; `shape` is [H, K, V].

        `whole` computes the tokens of a forward that has one row and keeps them all, where a model has such a form.
        """
        states, rows = self._buffer(layer, shape, torch.float32), self._rows_now
        if whole is not None and self._is_whole:
            out, last = whole(states[rows.slot])
            self._uncommitted[layer] = _LastState(last)
            return out
        read: torch.Tensor
        read, self._uncommitted[layer] = self.recurrence.run_tokens(states, rows, tokens())
        return read

    def commit(self, counts: Sequence[int], first_row: int = 0) -> None:
        """Advance each row from `first_row` on, and its states, by its accepted tokens."""
        super().commit(counts, first_row)
        moved = [
            (slot.number, slot.forward_row, n)
            for slot, n in zip(self._row_slots[first_row : first_row + len(counts)], counts, strict=True)
            if slot.forward_row is not None and n
        ]
        if not moved:
            return
        rows = recurrence.select_accepted_rows(self._rows_now, moved)
        for layer, uncommitted in self._uncommitted.items():
            states = self._states.buffers[layer]
            match uncommitted:
                case StateWrites():
                    self.recurrence.advance_states(states, rows, uncommitted)
                case _LastState(state):
                    assert rows.counts == self._rows_now.counts, "only part of a forward of whole chunks was committed"
                    states[rows.slot] = state
                case _ConvInputs(inputs):
                    recurrence.advance_pasts(states, rows, inputs)
        self._uncommitted = {}

    @property
    def _rows_now(self) -> StateRows:
        if self._forward is None:
            raise RuntimeError("the cache was used outside a forward")
        return self._forward

    def _buffer(self, layer: Hashable, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return self._states.buffer(layer, shape, dtype, self.device)

    # Rows ---------------------------------------------------------------------------------------------------------

    def start(self, row: int, max_tokens: int, length: int = 0, *, source: int | None = None) -> None:
        """Start a row; from a `source`, with the state after its first `length` tokens."""
        prompt, begins_at = None, None
        if source is not None:
            prompt, begins_at = self._row_slots[source].prompt, self._find_state_slot(source, length)
        super().start(row, max_tokens, length, source=source)
        self._assign_slot(row, begins_at, prompt)

    def restore(self, row: int, tokens: Sequence[int]) -> int:
        """Let an empty row begin with what the pool knows of `tokens` and of the state after them."""
        n = super().restore(row, tokens)
        if n:
            kept = self._states.find([*self.pool.hash_prefixes(tokens[:n])][-1])
            assert kept is not None
            self._states.copy(kept, self._row_slots[row].number)
        return n

    def keep(self, row: int, tokens: Sequence[int]) -> None:
        """Let later prompts find the full pages of `tokens`, and the state where these end.

        Of a prompt the states after 1, 2, 4, 8 .. chunks stay, and the last one: few, so that they do not displace each
        other, and near any place where another prompt departs from it.
        """
        super().keep(row, tokens)
        n, rest = divmod(len(tokens), self._kept_every)
        if not n or rest:
            return
        key, slot = [*self.pool.hash_prefixes(tokens)][-1], self._row_slots[row]
        if slot.newest is not None:
            self._states.forget(slot.newest)
        is_new = self._states.keep(key, slot.number)
        slot.newest = key if is_new and n & (n - 1) else None

    def keep_prompt(self, row: int) -> None:
        """Keep a copy of a row's state at the end of its prompt, for rows that later `start` from it."""
        slot = self._row_slots[row]
        if slot.prompt is None:
            slot.prompt = _Prompt(self._states.take(), self.lens[row])
            self._states.copy(slot.number, slot.prompt.slot)

    def fork(self, row: int, n_written: int = 0) -> None:
        """Append a copy of `row`, which a commit advances over its own part of the same forward."""
        super().fork(row, n_written)
        slot = self._row_slots[row]
        self._assign_slot(len(self._row_slots), slot.number, slot.prompt)
        self._row_slots[-1].forward_row = slot.forward_row

    def drop(self, row: int) -> None:
        """Remove a row: the last row takes its number."""
        super().drop(row)
        slot = take_out(self._row_slots, row)
        self._states.give_back(slot.number)
        self._leave_prompt(slot)

    def set_aside(self, row: int) -> None:
        """Take a row out of the batch, with its states."""
        super().set_aside(row)
        self._slots_aside.append(take_out(self._row_slots, row))

    def put_back(self) -> None:
        """Append the row that was last set aside, which is in no forward now."""
        super().put_back()
        self._row_slots.append(self._slots_aside.pop())
        self._row_slots[-1].forward_row = None

    def rewind(self, row: int, length: int) -> None:
        """Do nothing at the row's end. Raises RuntimeError before it: the state there is not known any more."""
        if length < self.lens[row]:
            raise RuntimeError("a row with recurrent states cannot be cut back")

    def _known_pages(self, tokens: Sequence[int]) -> list[int]:
        """Return the pages of earlier prompts up to the last one at whose end the state is known."""
        pages = super()._known_pages(tokens)
        keys = [*self.pool.hash_prefixes(tokens)][: len(pages)]
        return pages[: next((n for n in range(len(keys), 0, -1) if keys[n - 1] in self._states), 0)]

    def _find_state_slot(self, source: int, length: int) -> int:
        """Return the slot with the state of a row after its first `length` tokens. Raises RuntimeError without one."""
        slot = self._row_slots[source]
        if length == self.lens[source]:
            return slot.number
        if slot.prompt is None or slot.prompt.length != length:
            raise RuntimeError(f"the recurrent states after {length} tokens of a row are not known any more")
        return slot.prompt.slot

    def _assign_slot(self, row: int, begins_at: int | None, prompt: _Prompt | None) -> None:
        """Let a row, at the end or in place of another one, begin with zeros, or a copy of the slot `begins_at`."""
        old = self._row_slots[row] if row < len(self._row_slots) else None
        # A row that is replaced leaves its slot: a batch whose slots are all in use has no other.
        made = _RowSlot(self._states.take() if old is None else old.number, prompt=prompt)
        if begins_at is None:
            self._states.clear(made.number)
        elif begins_at != made.number:
            self._states.copy(begins_at, made.number)
        if prompt is not None:
            prompt.n_rows += 1
        if old is not None:
            self._leave_prompt(old)
        self._row_slots[row : row + 1] = [made]

    def _leave_prompt(self, slot: _RowSlot) -> None:
        if slot.prompt is not None:
            slot.prompt.n_rows -= 1
            if not slot.prompt.n_rows:
                self._states.give_back(slot.prompt.slot)

    # What transformers asks of the cache of a recurrent layer -----------------------------------------------------

    def has_previous_state(self, *_: object, **__: object) -> bool:
        """Return False, so that a layer computes as for a prompt, by functions of ours (`attention/recurrence.py`)."""
        return False

    def is_recording_past(self, *_: object) -> bool:
        """Return False."""
        return False

    def get_conv_state(self, *_: object, **__: object) -> None:
        """Return None, as for a prompt."""

    def get_recurrent_state(self, *_: object, **__: object) -> None:
        """Return None, as for a prompt."""

    def update_conv_state(self, conv_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Return the inputs of a convolution as they are: `convolve` puts the past before them."""
        return conv_states

    def update_recurrent_state(self, recurrent_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Return a state as it is: `commit` writes the slots."""
        return recurrent_states
