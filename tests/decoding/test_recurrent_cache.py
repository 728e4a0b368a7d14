"""States of recurrent layers: whatever is appended, rejected, forked and found again, they are a plain run's."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from decoding.memory.pages import OutOfPagesError, PagePool
from decoding.memory.recurrent import RecurrentCache
from decoding.memory.states import StatePool, count_slots
from decoding.memory.store import KVStore, MemoryNeed
from decoding.models.errors import NoMemoryError
from kernels.recurrence import TokenInputs
from tests.thorough import quick_first

CPU = torch.device("cpu")
ROWS, MOST, PAGE, VOCAB = 5, 40, 4, 16
H, G, K, V, C, WIDTH = 4, 2, 3, 5, 6, 4


class Layer:
    """What a token brings to a recurrent layer and to a convolution depends on the token alone."""

    def __init__(self, seed: int, *, delta: bool, per_channel: bool) -> None:
        make = torch.Generator().manual_seed(seed)
        self.q, self.k = (torch.randn(VOCAB, G, K, generator=make) for _ in range(2))
        self.v = torch.randn(VOCAB, H, V, generator=make)
        self.decay = torch.rand(VOCAB, H, K, generator=make) if per_channel else torch.rand(VOCAB, H, generator=make)
        self.beta = torch.rand(VOCAB, H, generator=make) if delta else None
        self.x = torch.randn(VOCAB, C, generator=make)
        self.weight, self.bias = torch.randn(C, WIDTH, generator=make), torch.randn(C, generator=make)

    def tokens(self, ids: Sequence[int]) -> TokenInputs:
        beta = None if self.beta is None else self.beta[[*ids]]
        return TokenInputs(self.q[[*ids]], self.k[[*ids]], self.v[[*ids]], self.decay[[*ids]], beta)

    def run(self, text: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What each token of a text reads, its convolution, and the state at the end: one token after the other."""
        state, read = torch.zeros(H, K, V), [torch.zeros(0, V)] * (not text)
        past = [torch.zeros(C)] * (WIDTH - 1)
        convolved = []
        for token in text:
            key = self.k[token].repeat_interleave(H // G, dim=0)[..., None]
            query = self.q[token].repeat_interleave(H // G, dim=0)[..., None]
            decay = self.decay[token]
            state = state * (decay[..., None] if decay.dim() == 2 else decay[:, None, None])
            new = self.v[token]
            if self.beta is not None:
                new = (new - (state * key).sum(dim=1)) * self.beta[token][:, None]
            state = torch.addcmul(state, key, new[:, None])
            read.append((state * query).sum(dim=1))
            past.append(self.x[token])
            window = past[-WIDTH:]
            convolved.append(sum((x * w for x, w in zip(window, self.weight.T, strict=True)), self.bias))
        return torch.stack(read), torch.stack(convolved or [self.bias]), state

    def past(self, text: Sequence[int]) -> torch.Tensor:
        """The inputs of a convolution that the next token sees."""
        return torch.stack([torch.zeros(C)] * (WIDTH - 1) + [self.x[token] for token in text])[1 - WIDTH :]


class Schedule:
    """Random requests over a cache, and the text that each row should have."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.layer = Layer(seed, delta=seed % 2 == 0, per_channel=seed % 3 == 0)
        pool = PagePool(80, PAGE)
        pool.states = StatePool(count_slots(ROWS), 3)
        self.cache = RecurrentCache(0, ROWS, pool, CPU, max_tokens=MOST)
        self.texts: list[list[int]] = []
        self.prompts: list[int] = []
        self.n_hits = 0
        self.aside: tuple[list[int], int] | None = None

    @property
    def is_full(self) -> bool:
        return len(self.texts) + (self.aside is not None) == ROWS

    def some(self, n: int) -> list[int]:
        return [self.draw.randrange(VOCAB) for _ in range(n)]

    def forward(self, drafts: list[list[int]], first_row: int = 0, *, whole: bool = False) -> None:
        counts = [len(draft) for draft in drafts]
        self.cache.begin(counts, first_row, whole=whole)
        packed = [token for draft in drafts for token in draft]

        def chunked(state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            want, _, last = self.layer.run(self.texts[first_row] + packed)
            assert torch.equal(state[0], self.layer.run(self.texts[first_row])[2])
            return want[-len(packed) :], last[None]

        read = self.cache.recur("r", (H, K, V), lambda: self.layer.tokens(packed), chunked if whole else None)
        convolved = self.cache.convolve("c", self.layer.x[packed], self.layer.weight, self.layer.bias)
        at = 0
        for r, draft in enumerate(drafts, start=first_row):
            want_read, want_convolved, _ = self.layer.run(self.texts[r] + draft) if draft else (read, convolved, None)
            n = len(draft)
            if n:
                assert torch.equal(read[at : at + n], want_read[-n:])
                assert torch.allclose(convolved[at : at + n], want_convolved[-n:], atol=1e-6)
            at += n

    def check(self) -> None:
        for r, text in enumerate(self.texts):
            state = self.cache._states.buffers["r"][self.cache._row_slots[r].number]
            assert torch.equal(state, self.layer.run(text)[2])
            at = self.cache._row_slots[r].number
            assert torch.equal(self.cache._states.buffers["c"][at], self.layer.past(text))
            if prompt := self.cache._row_slots[r].prompt:
                assert torch.equal(
                    self.cache._states.buffers["r"][prompt.slot], self.layer.run(text[: prompt.length])[2]
                )

    def admit(self) -> None:
        row = len(self.texts)
        if self.is_full:
            return
        known = [text for text in self.texts if len(text) > PAGE]
        prompt = (self.draw.choice(known)[:12] if known and self.draw.random() < 0.5 else []) + self.some(7)
        self.cache.start(row, MOST)
        n_known = self.cache.restore(row, prompt)
        self.n_hits += n_known > 0
        self.texts.append(prompt[:n_known])
        while (n := len(self.texts[row])) < len(prompt):
            chunk = prompt[n : n + PAGE - n % PAGE]
            self.forward([chunk], first_row=row, whole=self.draw.random() < 0.7)
            self.cache.commit([len(chunk)], first_row=row)
            self.texts[row] = prompt[: n + len(chunk)]
            self.cache.keep(row, self.texts[row])
        self.prompts.append(len(prompt))
        self.cache.keep_prompt(row)

    def round(self) -> None:
        if not self.texts:
            return
        drafts = [self.some(self.draw.randint(1, 6)) if len(text) < MOST - 6 else [1] * 0 for text in self.texts]
        self.forward(drafts)
        for r in range(len(self.texts)):
            if not self.is_full and self.draw.random() < 0.3:
                self.cache.fork(r, len(drafts[r]))
                self.texts.append([*self.texts[r]])
                self.prompts.append(self.prompts[r])
                drafts.append(drafts[r])
        kept = [self.draw.randint(min(1, len(draft)), len(draft)) for draft in drafts]
        self.cache.commit(kept)
        self.texts = [text + draft[:n] for text, draft, n in zip(self.texts, drafts, kept, strict=True)]

    def begin_again(self) -> None:
        if not self.texts:
            return
        source = self.draw.randrange(len(self.texts))
        row = source if self.is_full or self.draw.random() < 0.5 else len(self.texts)
        n = self.prompts[source]
        self.cache.start(row, MOST, n, source=source)
        self.texts[row : row + 1] = [self.texts[source][:n]]
        self.prompts[row : row + 1] = [n]

    def drop(self) -> None:
        if not self.texts:
            return
        row = self.draw.randrange(len(self.texts))
        self.cache.drop(row)
        self.take_out(row)

    def take_out(self, row: int) -> tuple[list[int], int]:
        taken = self.texts[row], self.prompts[row]
        for each in (self.texts, self.prompts):
            last = each.pop()
            if row < len(each):
                each[row] = last  # type: ignore[call-overload]
        return taken

    def set_aside_or_put_back(self) -> None:
        if self.aside is not None:
            self.cache.put_back()
            (text, prompt), self.aside = self.aside, None
            self.texts.append(text)
            self.prompts.append(prompt)
        elif self.texts:
            row = self.draw.randrange(len(self.texts))
            self.cache.set_aside(row)
            self.aside = self.take_out(row)


@pytest.mark.parametrize("seed", quick_first(range(12), range(4)))
def test_any_schedule_leaves_the_states_of_a_plain_run(seed: int) -> None:
    schedule = Schedule(seed)
    for _ in range(25):
        steps = schedule.admit, schedule.round, schedule.round, schedule.begin_again, schedule.drop
        schedule.draw.choice([*steps, schedule.set_aside_or_put_back])()
        schedule.check()
    schedule.cache.clear()
    assert schedule.cache._states.n_used == 0


def test_schedules_begin_prompts_with_states_of_earlier_ones() -> None:
    schedules = [Schedule(seed) for seed in range(4)]
    for schedule in schedules:
        for _ in range(12):
            schedule.admit()
            schedule.round()
            schedule.drop()
    assert all(schedule.n_hits for schedule in schedules)


def started(n_slots: int) -> RecurrentCache:
    pool = PagePool(20, PAGE)
    pool.states = StatePool(n_slots)
    return RecurrentCache(0, ROWS, pool, CPU, max_tokens=MOST)


def test_a_row_is_not_cut_back_and_not_begun_where_its_state_is_not_known() -> None:
    schedule = Schedule(0)
    schedule.admit()
    schedule.round()
    cache = schedule.cache
    with pytest.raises(RuntimeError, match="cannot be cut back"):
        cache.rewind(0, 3)
    with pytest.raises(RuntimeError, match="after 3 tokens of a row are not known any more"):
        cache.start(1, MOST, 3, source=0)


def test_slots_that_run_out_are_said() -> None:
    cache = started(3)
    cache.start(0, 8)
    cache.keep_prompt(0)
    cache.start(0, 8, source=0)  # in its own place
    cache.fork(0)
    with pytest.raises(OutOfPagesError, match="all 3 slots for recurrent states are in use"):
        cache._states.take()


def test_requests_wait_for_slots_as_for_pages() -> None:
    store = KVStore(CPU, PAGE, budget=10_000)
    (pool,) = store.divide([{"keys": torch.empty(1, 0, 1)}], 400, 0, state_bytes=1000, max_rows=3)
    assert pool.states is not None
    assert pool.states.n_slots == 5, "half of the budget"
    account = store.open([RecurrentCache(0, 2, pool, CPU)])
    account.take("a", MemoryNeed(2, 8))
    assert account.lacks(MemoryNeed(2, 8))
    assert not account.lacks(MemoryNeed(1, 8)), "all slots are taken then"
    assert account.never_fits(MemoryNeed(5, 8))
    account.give_back("a")
    assert not account.lacks(MemoryNeed(2, 8))


def test_states_of_earlier_prompts_are_within_the_budget() -> None:
    for budget, slots, kept in ((100_000, 8, 4), (20_000, 8, 2), (10_000, 5, 0)):
        store = KVStore(CPU, PAGE, budget)
        (pool,) = store.divide([{"keys": torch.empty(1, 0, 250)}], 10**6, 500, state_bytes=1000, max_rows=4)
        assert pool.states is not None
        assert (pool.states.n_slots, pool.states._max_kept) == (slots, kept), "a few, even of large states"
        assert budget - 4000 <= 1000 * (slots + kept + pool.n_pages * PAGE) <= budget
    with pytest.raises(NoMemoryError, match="the recurrent states of one row take 2 MB, more than half of the 3 MB"):
        KVStore(CPU, PAGE, 3_000_000).divide([{}], 400, 0, state_bytes=1_000_000, max_rows=2)


def test_of_a_long_prompt_few_states_are_kept() -> None:
    pool = PagePool(20, PAGE)
    pool.states = StatePool(2, 5)
    cache = RecurrentCache(0, 1, pool, CPU, max_tokens=80, chunk=2 * PAGE)
    cache.start(0, 80)
    text = [*range(75)]
    for end in (8, 16, 20, 24, 32, 40, 48, 56, 64, 72, 75):
        cache.begin([end - cache.lens[0]])
        cache.convolve("c", torch.zeros(end - cache.lens[0], C), torch.zeros(C, WIDTH), None)
        cache.commit([end - cache.lens[0]])
        cache.keep(0, text[:end])
    ends = [n for n in range(76) if n and cache.n_known([*text[:n], 999]) == n]
    assert ends == [8, 16, 32, 64, 72], "whole chunks alone"


def test_states_of_earlier_prompts_give_way_to_later_ones() -> None:
    pool = StatePool(2, 2)
    pool.buffer("s", (3,), torch.float32, CPU)
    slot = pool.take()
    for i in range(4):
        pool.buffers["s"][slot] = i
        pool.keep(bytes([i]), slot)
    assert [bytes([i]) in pool for i in range(4)] == [False, False, True, True]
    kept = pool.find(bytes([2]))
    assert kept is not None
    assert pool.buffers["s"][kept].tolist() == [2.0] * 3
    assert pool.n_used == 1
