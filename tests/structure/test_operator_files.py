"""The files for operators fit the service: alerts and dashboard name metrics that it shows, the proxy its limits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update

from app.core.db.types import get_utc_time
from app.core.settings import MAX_BUDGET_S
from app.core.states import RunState
from app.runs.models import RunTask
from app.web.http.limits import UPLOAD_BYTES
from evaluation.verdicts import Status

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ALERTS = [
    rule["expr"]
    for group in yaml.safe_load((DEPLOY / "monitoring" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = [
    target["expr"]
    for panel in json.loads((DEPLOY / "monitoring" / "grafana-dashboard.json").read_text())["panels"]
    for target in panel["targets"]
]
PROXY = (DEPLOY / "proxy" / "nginx.conf").read_text()


@pytest.fixture
def shown(world) -> dict[str, dict[str, set[str]]]:
    """The metrics that a service with a run shows: name, label, values."""
    world.add_run("measured", limit=2)
    with world.context.database.session() as session:
        session.execute(update(RunTask).values(finished_at=get_utc_time()))
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(world.client.get("/api/v1/metrics").get_data(as_text=True)):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def test_every_metric_of_alerts_and_dashboard_is_shown(shown):
    possible = {"state": set(RunState), "verdict": {*Status, "none"}}
    assert len(ALERTS) >= 5
    assert len(PANELS) >= 5
    for expression in ALERTS + PANELS:
        names = re.findall(r"\bbassline_\w+", expression)
        assert names or expression.startswith('up{job="bassline"}')
        assert set(names) <= set(shown), expression
        for name, label, value in re.findall(r'(bassline_\w+)\{(\w+)!?="(\w+)"\}', expression):
            assert label in shown[name], expression
            assert value in possible[label], expression


def test_every_legend_names_a_label_of_its_metric(shown):
    for panel in json.loads((DEPLOY / "monitoring" / "grafana-dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert any(label in shown[name] for name in re.findall(r"\bbassline_\w+", target["expr"])), panel[
                    "title"
                ]


def test_the_proxy_passes_on_the_largest_upload_and_the_longest_budget():
    assert int(re.search(r"client_max_body_size (\d+)m;", PROXY)[1]) * 2**20 >= UPLOAD_BYTES
    assert int(re.search(r"proxy_read_timeout (\d+)s;", PROXY)[1]) > MAX_BUDGET_S
    for header in ("X-Forwarded-For $remote_addr", "X-Forwarded-Proto $scheme", "X-Forwarded-Host $http_host"):
        assert f"proxy_set_header {header};" in PROXY
