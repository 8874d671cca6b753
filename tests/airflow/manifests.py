"""Manifests for DAG factories, and the bag that reads a DAG file as Airflow does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEAD = "kind: dpone.batch.v1\n"
BODY = """\
defaults:
  source: {type: clickhouse, connection_ref: from_here}
  sink: {type: clickhouse, connection_ref: warehouse, table: {schema: shop}}
schemas:
  erp:
    tables:
      - {table: orders, overrides: {metadata: {airflow: {retries: 5, pool: slow, execution_timeout: 60}}}}
      - {table: Totals, depends_on: [erp.orders], overrides: {name: totals}}
"""
ADVICE = """\
metadata:
  note: anything
  airflow: {schedule: "0 4 * * *", start_date: 2026-01-01, tags: [a, b], owner: x, retries: 2, retry_delay: 60}
"""
BROKEN = HEAD + "schemas:\n  a:\n    tables:\n      - t: 1\n"
LOADER = "# airflow dag\nfrom dpone_provider.api import load_dpone_dags\nload_dpone_dags('loads', globals())\n"


def manifest(file: Path, advice: str = ADVICE, body: str = BODY) -> Path:
    """Write a manifest."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEAD + advice + body, encoding="utf-8")
    return file


def bag_of(file: Path, text: str, bundle: Path | None = None) -> Any:
    """The bag of a DAG file with this text."""
    from tests.airflow.release import bag

    file.write_text(text, encoding="utf-8")
    return bag(file, bundle)
