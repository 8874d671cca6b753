"""What a manifest may tell Airflow about the task of a process and about the DAG of a file."""

from __future__ import annotations

from dpone_provider.manifest.grammar.declare import key, model

PRESETS = ("@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
ASSET = r"[a-z][a-z0-9+.\-]*://[!-~]+"
_CRON_FIELD = r"[0-9A-Za-z*/,?#\-]+"
_SCHEDULE = rf"(?:{'|'.join(PRESETS)}|{ASSET}|{_CRON_FIELD}(?: +{_CRON_FIELD}){{4,5}})"
_DAY = r"[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
_MOMENT = rf"{_DAY}(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?{_ZONE}?)?"
_DAG_ID = r"[A-Za-z0-9_.\-]+"
_LONGEST = 366 * 24 * 3600
_MANY = 10_000


@model()
class AirflowTask:
    """How Airflow runs the task of a process; in the file's own metadata, the default of all its tasks."""

    owner: str = key("Who answers for the task.", example="analytics")
    retries: int = key("How often a failed try is followed by another.", example=2, least=0, most=_MANY)
    retry_delay: int = key("Seconds between two tries.", example=60, least=0, most=_LONGEST)
    execution_timeout: int = key("Seconds that one try may take.", example=3600, least=1, most=_LONGEST)
    pool: str = key("The pool whose slots the task takes.", example="clickhouse", most=256)
    pool_slots: int = key("How many slots the task takes.", example=1, least=1, most=_MANY)
    priority_weight: int = key("Which task goes first when slots are few.", example=10, least=1, most=_MANY)
    queue: str = key("The executor's queue.", example="loads", most=256)


@model()
class AirflowDag(AirflowTask):
    """How Airflow runs the DAG that a file becomes, besides the defaults of its tasks."""

    dag_id: str = key("The id of the DAG: default the file's name.", example="orders", pattern=_DAG_ID, most=250)
    description: str = key("One sentence for the list of DAGs.", example="All orders, every night")
    doc_md: str = key("Documentation in Markdown.", example="Ask the analytics team.")
    schedule: str | tuple[str, ...] = key(
        "When to run: a cron expression, a preset, or assets that must have been updated: default never by itself.",
        example="0 4 * * *",
        pattern=_SCHEDULE,
        least=1,
        unique=True,
    )
    start_date: str = key(
        "The first moment to run for: a date, with or without a time; UTC unless it says otherwise.",
        example="2026-01-01",
        pattern=_MOMENT,
    )
    end_date: str = key("The last moment to run for.", example="2027-01-01T00:00:00+01:00", pattern=_MOMENT)
    catchup: bool = key("Run for the past too: default as Airflow is configured.", example=False)
    max_active_runs: int = key("Runs at the same time.", example=1, least=1, most=_MANY)
    max_active_tasks: int = key("Tasks of all runs at the same time.", example=4, least=1, most=_MANY)
    dagrun_timeout: int = key("Seconds that one run may take.", example=7200, least=1, most=_LONGEST)
    tags: tuple[str, ...] = key("Words to find the DAG by.", example=["dpone", "orders"], most=100, unique=True)
    is_paused_upon_creation: bool = key("Whether a new DAG waits to be switched on.", example=True)
