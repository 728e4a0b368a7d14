"""The trusted end of zygotes."""

from types import SimpleNamespace

from evaluation.sandbox import zygotes


def test_a_program_that_calls_itself_bwrap_is_counted(monkeypatch):
    names = ("bwrap", "bwrap", "python3", "bwrap", "node")
    family = [SimpleNamespace(pid=pid, name=lambda name=name: name) for pid, name in enumerate(names)]
    monkeypatch.setattr(zygotes, "_find_family", lambda _pid: family)
    zygote = SimpleNamespace(_process=SimpleNamespace(pid=0))
    assert zygotes.Zygote._list_job_processes(zygote) == family[3:]
