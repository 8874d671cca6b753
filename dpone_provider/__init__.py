"""Declarative ClickHouse loads for Airflow that are safe to retry and cannot report success without proof.

Importing this package imports nothing else: no Airflow, no driver, no Arrow (architecture, rule 3). Public names live
in ``dpone_provider.api``.
"""

__version__ = "0.1.0"
