"""Resource limits of one judgement."""

from __future__ import annotations

from dataclasses import dataclass, replace

NOTICEABLE_WAIT_S = 0.05
"""A wait for a CPU that moves the deadline. Shorter waits are normal: a program that sleeps has them as well."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one judgement; memory and CPU limits hold for the candidate and the test's process separately.

    `cpu_s` (whole seconds) is the real limit, by the exact CPU clock. `wall_s` bounds programs that sleep or wait for
    something that never comes: seconds in which a program waits for a CPU do not count where the kernel reports them.
    Of what a program prints little is kept, so `output_bytes` is only for floods.
    Raises ValueError for a limit that is not above 0.
    """

    cpu_s: int = 3
    wall_s: float = 9.0
    memory_bytes: int = 512 * 2**20
    output_bytes: int = 8 * 2**20
    file_bytes: int = 16 * 2**20
    open_files: int = 64
    threads: int = 16
    stack_bytes: int = 64 * 2**20
    call_cpu_s: int | None = None  # of one call of the candidate; None for what the others leave

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ValueError(f"the sandbox limit {name} must be above 0, not {value}")

    def extend_for_many_inputs(self) -> Limits:
        """Return the limits for a test with hundreds of inputs: EvalPlus gives a task 60 s, and an input 1 s or more.

        A call that computes for ever ends about as soon as with other tests; one that sleeps, only at `wall_s`.
        """
        return replace(
            self,
            cpu_s=max(self.cpu_s, 60),
            wall_s=max(self.wall_s, 120.0),
            call_cpu_s=self.cpu_s + 2,
            memory_bytes=max(self.memory_bytes, 2**30),  # results may have a million parts
        )

    def build_rlimits(self, other_threads: int) -> dict[str, int]:
        """Return setrlimit values by name; `other_threads` of the same uid count against NPROC too.

        CPU is not among them: the kernel counts it in ticks, so the zygote keeps that limit by the exact clock.
        """
        return {
            "AS": self.memory_bytes,
            "FSIZE": self.file_bytes,
            "NOFILE": self.open_files,
            "NPROC": self.threads + other_threads,
            "CORE": 0,
            "STACK": self.stack_bytes,
        }
