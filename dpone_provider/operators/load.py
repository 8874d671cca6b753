"""The operator: declarative values at parse time, one proven load at run time (F1–F4)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout, BaseOperator, conf

from dpone_provider.errors import DponeError
from dpone_provider.links import OperationLink
from dpone_provider.load.known import REPEATS

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from airflow.providers.openlineage.extractors import OperatorLineage

    from dpone_provider.load.outcome import LoadOutcome, RunIdentity
    from dpone_provider.manifest.spec import LoadSpec


class DponeLoadOperator(BaseOperator):
    """Runs one load to its proven end.

    Either ``manifest`` (a path, relative to the DAG file's folder) with ``process`` (name or selector; not needed
    when the manifest has one process), or inline ``source`` and ``sink`` (and ``quality``) as the manifest would have
    them, with ``process`` as the name. ``task_id`` defaults to ``process``, so that the CLI can finish the same
    operation. ``connections`` maps a ``connection_ref`` to the Airflow connection id to use for it, where they differ.
    ``namespace`` defaults to Airflow's configuration ``[dpone] namespace``. ``reprocess``: any text that
    is not empty makes a deliberate new operation of the same DAG run and task. ``folder``: where relative paths start
    instead of the DAG file's folder.

    Returns the small summary of ``LoadOutcome.summary`` (F8). Raises ``AirflowFailException`` when a retry cannot
    help, ``DponeError`` when it can: a retry finishes what is missing and repeats nothing that is proven.
    """

    template_fields: Sequence[str] = ("manifest", "process", "source", "sink", "quality", "connections", "reprocess")
    operator_extra_links = (OperationLink(),)
    ui_color = "#ffe08a"

    def __init__(
        self,
        *,
        manifest: str | None = None,
        process: str | None = None,
        source: dict[str, Any] | None = None,
        sink: dict[str, Any] | None = None,
        quality: dict[str, Any] | None = None,
        connections: dict[str, str] | None = None,
        namespace: str | None = None,
        reprocess: str = "",
        folder: str | None = None,
        task_id: str | None = None,
        **options: Any,
    ) -> None:
        name = task_id or process
        if name is None:
            raise ValueError("DponeLoadOperator needs `process` (its name becomes the task's id) or `task_id`")
        super().__init__(task_id=name, **options)
        if (manifest is None) == (source is None or sink is None):
            raise ValueError(f"{name}: give either `manifest`, or `source` and `sink`")
        if manifest is not None and any(part is not None for part in (source, sink, quality)):
            raise ValueError(f"{name}: `source`, `sink` and `quality` stand in the manifest already")
        self.manifest = manifest
        self.process = process
        self.source = source
        self.sink = sink
        self.quality = quality
        self.connections = connections
        self.namespace = namespace
        self.reprocess = reprocess
        self.folder = folder
        self.killed = False
        self.outcome: LoadOutcome | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Compose and run; everything that connects, reads or starts is made in here (F2)."""
        from dpone_provider.hooks.clickhouse import AirflowConnections
        from dpone_provider.load.operation import observes_target, operation_of
        from dpone_provider.operators.evidence import Evidence
        from dpone_provider.operators.task_log import TaskLog
        from dpone_provider.runtime.compose import Surroundings
        from dpone_provider.runtime.run import run_load

        instance = context["ti"]
        self._link(instance)
        evidence = Evidence(instance.xcom_push, self.notify, try_number=instance.try_number)
        told = TaskLog(self.log, evidence.notify)
        try:
            spec = self._spec()
            identity = self._identity(context, spec)
            evidence.about(
                operation_of(spec, identity),
                connection=spec.sink.connection_ref,
                durable=spec.sink.durable_quality_replay,
                observes=observes_target(spec),
                adds=spec.sink.strategy.mode == "append",
                resumes=spec.source.partitions is not None,
            )
            around = Surroundings(notify=told.notify, check_cancelled=self._check_killed)
            outcome = run_load(spec, identity, AirflowConnections(self.connections), around)
        except DponeError as error:
            told.failed(error)
            try:
                evidence.failed(error)
            finally:  # keeping the evidence may fail as well; the load's own error is the one that counts
                _raise(error)
        except (Exception, AirflowTaskTimeout) as error:
            if evidence.repeats:  # Airflow would try again by itself, and add the rows once more
                raise AirflowFailException(f"{type(error).__name__} after rows were sent. {REPEATS}") from error
            raise
        told.succeeded(outcome)
        evidence.succeeded(outcome)
        self.outcome = outcome
        self._tell_assets(context, outcome)
        return outcome.summary()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage | None:
        """Inputs, output and what was counted of them, for Airflow's OpenLineage provider; None without a success."""
        from dpone_provider.hooks.clickhouse import AirflowConnections
        from dpone_provider.operators.lineage import lineage_of

        return lineage_of(self.outcome, AirflowConnections(self.connections)) if self.outcome is not None else None

    def on_kill(self) -> None:
        """Airflow wants the task to end. ``execute`` goes on after this, so it is told to stop before its next step."""
        self.killed = True

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        """Called before each step of the load acts; for subclasses. What it raises stops the load there."""

    def _tell_assets(self, context: Context, outcome: LoadOutcome) -> None:
        from dpone_provider.operators.lineage import asset_extra

        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {"dpone": asset_extra(outcome)}

    def _link(self, instance: Any) -> None:
        """Airflow 3 writes the link when a task ends; so a task that is at work, or is killed, has one too.

        The web server of 2.11 asks the link itself, which has no key.
        """
        link = OperationLink()
        if key := getattr(link, "xcom_key", None):
            instance.xcom_push(key, link.get_link(self, ti_key=instance))

    def _check_killed(self) -> None:
        if self.killed:
            raise DponeError("DPONE_CANCELLED", "Airflow ended the task; nothing more was sent.")

    def _spec(self) -> LoadSpec:
        from dpone_provider.manifest.read import load_spec, spec_from_values

        folder = self.folder or os.path.dirname(os.path.abspath(self.dag.fileloc))
        if self.manifest is not None:
            return load_spec(os.path.join(folder, self.manifest), self.process)
        return spec_from_values(
            name=self.process or self.task_id, source=self.source, sink=self.sink, quality=self.quality, base=folder
        )

    def _identity(self, context: Context, spec: LoadSpec) -> RunIdentity:
        from dpone_provider.load.outcome import RunIdentity

        instance = context["ti"]
        return RunIdentity(
            namespace=self.namespace or conf.get("dpone", "namespace", fallback="default"),
            dag_id=instance.dag_id,
            run_id=instance.run_id,
            task_id=instance.task_id,
            map_index=instance.map_index if instance.map_index is not None else -1,
            reprocess=self.reprocess or "",
        )


def _raise(error: DponeError) -> NoReturn:
    """As it is when a retry can finish it, else as what ends Airflow's retries."""
    if error.retryable:
        raise error
    raise AirflowFailException(str(error)) from error
