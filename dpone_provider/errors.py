"""Every error the product raises: one root, one catalogue of codes.

A message never carries SQL, row values, DSNs, credentials, machine paths or driver text; a *user's own* path or
column name, as authored, may stand in it.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

Boundary = Literal["authoring", "admission", "pre_commit", "post_commit", "resume_validation"]
TargetCommit = Literal["not_started", "unknown", "proven"]


@attrs.frozen(kw_only=True)
class CodeInfo:
    """What a code means and what to do about it; ``docs/errors.md`` is generated from these."""

    meaning: str
    remedy: str
    boundary: Boundary = "pre_commit"
    retryable: bool = False


def _catalogue() -> dict[str, CodeInfo]:
    info = CodeInfo
    return {
        # -- authoring -------------------------------------------------------------------------------------------
        "DPONE_MANIFEST_INVALID": info(
            meaning="The manifest has problems; each is listed with file, line and column.",
            remedy="Correct every listed problem; `dpone check` lists them without running anything.",
            boundary="authoring",
        ),
        "DPONE_SELECTOR_UNKNOWN": info(
            meaning="The manifest has no process with this selector.",
            remedy="Use one of the selectors that `dpone check` lists.",
            boundary="authoring",
        ),
        "DPONE_ACCEPTANCE_CONFIGURATION": info(
            meaning="quality.acceptance is malformed.",
            remedy="Correct the named field.",
            boundary="authoring",
        ),
        "DPONE_QUALITY_CONFIGURATION": info(
            meaning="quality.gates is malformed.",
            remedy="Correct the named field.",
            boundary="authoring",
        ),
        "DPONE_USAGE": info(
            meaning="The command line is not understood.",
            remedy="See `dpone --help`.",
            boundary="authoring",
        ),
        # -- admission -------------------------------------------------------------------------------------------
        "DPONE_CONNECTION_UNKNOWN": info(
            meaning="A connection id could not be resolved.",
            remedy="Define it in Airflow, as AIRFLOW_CONN_<ID>, or in the file given with --connections.",
            boundary="admission",
        ),
        "DPONE_CONNECTION_INVALID": info(
            meaning="A connection is not usable for ClickHouse.",
            remedy="Check type, host, native port and HTTP port of the connection.",
            boundary="admission",
        ),
        "DPONE_SERVER_UNREACHABLE": info(
            meaning="The server does not answer.",
            remedy="Check that it runs and that host and ports of the connection are right; then retry.",
            boundary="admission",
            retryable=True,
        ),
        "DPONE_SERVER_AUTHENTICATION": info(
            meaning="The server refused user or password.",
            remedy="Correct login and password of the connection.",
            boundary="admission",
        ),
        "DPONE_SERVER_REFUSED": info(
            meaning="The ClickHouse server refused a statement.",
            remedy="Look at the server error number in the message.",
            boundary="admission",
        ),
        "DPONE_TARGET_UNSUPPORTED": info(
            meaning="The target cannot be loaded by this route.",
            remedy="Use an Atomic database and a plain MergeTree table without TTL, or another route.",
            boundary="admission",
        ),
        "DPONE_REPLAY_AUTHORITY_UNSUPPORTED": info(
            meaning="The replay authority table is missing or is not exactly as specified.",
            remedy="Let the platform owner run `dpone provision`; the runtime never creates or repairs it.",
            boundary="admission",
        ),
        "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED": info(
            meaning="This route, metric or reader cannot give the evidence that the manifest requires.",
            remedy="Change the acceptance request or the route; see the message.",
            boundary="admission",
        ),
        # -- source ----------------------------------------------------------------------------------------------
        "DPONE_SOURCE_NOT_FOUND": info(
            meaning="The source does not exist or matches nothing.",
            remedy="Correct path, pattern, table or query of the source.",
        ),
        "DPONE_SOURCE_DRIVER_MISSING": info(
            meaning="The driver of the source's database is not installed.",
            remedy="pip install 'airflow-provider-dpone[sql]'",
            boundary="admission",
        ),
        "DPONE_SOURCE_INVALID": info(
            meaning="The source cannot be read as declared.",
            remedy="Correct the source data, its format or its options.",
        ),
        "DPONE_SOURCE_FAILED": info(
            meaning="Reading the source failed part-way; nothing was published.",
            remedy="Retry; if it goes on, look at the source system.",
            retryable=True,
        ),
        "DPONE_SOURCE_VALUE_REFUSED": info(
            meaning="A value does not fit the target column's type.",
            remedy="Widen the column's type, make it Nullable, or correct the source.",
        ),
        "DPONE_SOURCE_COLUMN_UNKNOWN": info(
            meaning="Source and target columns do not match.",
            remedy="Correct sink.columns or the source's columns.",
        ),
        "DPONE_COLUMN_TYPE_UNSUPPORTED": info(
            meaning="A column's ClickHouse type is malformed or not supported.",
            remedy="Write a supported type by its canonical name, for example Nullable(Int32).",
        ),
        "DPONE_SOURCE_TOO_LARGE": info(
            meaning="The source exceeds strategy.max_source_bytes.",
            remedy="Raise the budget or read less.",
        ),
        # -- staging, gates --------------------------------------------------------------------------------------
        "DPONE_STAGING_FAILED": info(
            meaning="Writing the private generation failed; the live table was not touched.",
            remedy="Retry; check disk space and limits of the server if it goes on.",
            retryable=True,
        ),
        "DPONE_STAGED_COUNT_MISMATCH": info(
            meaning="The staged generation does not hold the rows that were sent; it was discarded.",
            remedy="Retry; a materialized view or deduplication on the staging table would explain it.",
            retryable=True,
        ),
        "DPONE_QUALITY_GATES_FAILED": info(
            meaning="A blocking quality gate failed.",
            remedy="Look at the listed gates; correct the source or the gate.",
        ),
        "DPONE_QUALITY_GATE_RECEIPT_REQUIRED": info(
            meaning="A quality receipt is missing or not bound to this execution.",
            remedy="Report this: a coordinator did not run the configured gates.",
        ),
        "DPONE_QUALITY_GATE_RECEIPT_MISMATCH": info(
            meaning="A quality receipt belongs to another policy, boundary or coverage.",
            remedy="Do not change the policy while a load runs.",
        ),
        "DPONE_QUALITY_GATE_RECEIPT_INVALID": info(
            meaning="A quality receipt is malformed or was used out of order.",
            remedy="Report this: it must not happen in a well-behaved process.",
        ),
        "DPONE_QUALITY_POLICY_DRIFT": info(
            meaning="The quality policy changed while the load ran.",
            remedy="Do not change the configuration of a running load; then start it again.",
        ),
        "DPONE_ACCEPTANCE_UNAVAILABLE": info(
            meaning="A required observation could not be made.",
            remedy="See the message: choose other columns, a type that the metric supports, or mode warn_only.",
        ),
        "DPONE_PUBLICATION_UNCERTAIN": info(
            meaning="The switch of the table was sent and could not be confirmed.",
            remedy="Look at the table; a retry loads again (without durable_quality_replay it cannot know).",
            boundary="post_commit",
            retryable=True,
        ),
        # -- partitions ------------------------------------------------------------------------------------------
        "DPONE_PARTITIONS": info(
            meaning="The partitions of the source cannot be planned.",
            remedy="Correct source.partitions; see the message.",
        ),
        "DPONE_PARTITION_KEY": info(
            meaning="The target's partition key does not match the partitions of the source.",
            remedy="Partition source and target by the same column and borders, or load with mode full_refresh.",
            boundary="admission",
        ),
        "DPONE_TRANSFER_BUSY": info(
            meaning="Another process works in the transfer folder of this operation.",
            remedy="Wait until it ends, then retry.",
            boundary="admission",
            retryable=True,
        ),
        "DPONE_TRANSFER_CHECKPOINT": info(
            meaning="A checkpoint of the transfer could not be read or written.",
            remedy="Look at the disk and the permissions of source.partitions.folder; then retry.",
            retryable=True,
        ),
        "DPONE_TRANSFER_ARTIFACT": info(
            meaning="An artefact of the transfer could not be written, or is not intact.",
            remedy="Look at the disk and permissions of source.partitions.artifacts; a retry reads what is missing.",
            retryable=True,
        ),
        "DPONE_TRANSFER_REPORT": info(
            meaning="The partitions are in the target; the report of the transfer could not be published.",
            remedy="Look at disk and permissions of source.partitions.folder; a retry validates and loads nothing.",
            boundary="post_commit",
            retryable=True,
        ),
        # -- append, source state, hooks -------------------------------------------------------------------------
        "DPONE_APPEND_UNCERTAIN": info(
            meaning="Rows were sent to the target and nobody can say how many arrived.",
            remedy="Look at the table before you retry: a retry may add the same rows again.",
            boundary="post_commit",
        ),
        "DPONE_APPEND_COUNT_MISMATCH": info(
            meaning="The server says that it wrote another number of rows than were sent.",
            remedy="Look at the table before you retry: a retry may add the same rows again.",
            boundary="post_commit",
        ),
        "DPONE_LOAD_TABLES_UNSUPPORTED": info(
            meaning="The tables of load steps or of source state are missing or are not exactly as specified.",
            remedy="Let the platform owner run `dpone provision --load-tables`; the runtime never creates them.",
            boundary="admission",
        ),
        "DPONE_SOURCE_STATE_UNCERTAIN": info(
            meaning="The mark of the source could not be read, or its advance could not be confirmed.",
            remedy="Look at dpone_source_state before you retry: a retry may add the same rows again.",
            boundary="post_commit",
        ),
        "DPONE_LOAD_STEP_UNCERTAIN": info(
            meaning="A step of the load could not be recorded in dpone_load_steps, or nobody can say whether it was.",
            remedy="Correct what keeps the user from writing to dpone_load_steps.",
        ),
        "DPONE_HOOK_FAILED": info(
            meaning="A statement of sink.pre_sql or sink.post_sql failed.",
            remedy="Correct the statement; the message says which one and when it ran.",
        ),
        # -- authority -------------------------------------------------------------------------------------------
        "DPONE_REPLAY_SLOT_BUSY": info(
            meaning="Another operation holds the target's slot.",
            remedy="Wait for it; the slot frees itself when that operation ends or is stale. Then retry.",
            boundary="admission",
            retryable=True,
        ),
        "DPONE_REPLAY_FENCED": info(
            meaning="A newer attempt took this operation over; this one stopped and changed nothing more.",
            remedy="Nothing to do: look at the newer attempt.",
            retryable=True,
        ),
        "DPONE_REPLAY_WINDOW_ENDED": info(
            meaning="A later operation has ended this operation's replay window; it is never run again.",
            remedy="Start a new DAG run, or set `reprocess` for a deliberate new operation.",
            boundary="resume_validation",
        ),
        "DPONE_REPLAY_QUALITY_EVIDENCE_REQUIRED": info(
            meaning="The durable proof of the original run is missing.",
            remedy="Keep the authority row: nothing that is read today replaces the proof. Ask the row's owner.",
            boundary="resume_validation",
        ),
        "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH": info(
            meaning="Today's configuration or the live table is not what was sealed.",
            remedy="Finish the sealed operation with the sealed configuration, or start a new operation.",
            boundary="resume_validation",
        ),
        "DPONE_REPLAY_QUALITY_EVIDENCE_INVALID": info(
            meaning="The durable proof or authority row is malformed.",
            remedy="Keep it for investigation; nothing clears it automatically.",
            boundary="resume_validation",
        ),
        "DPONE_REPLAY_QUALITY_EVIDENCE_FAILED": info(
            meaning="The operation ended as FAILED after its publication.",
            remedy="Start a new operation (a new DAG run, or `reprocess`).",
            boundary="post_commit",
        ),
        "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE": info(
            meaning="The operation is not finished: publication or proof is still open.",
            remedy="Retry the same operation: it finishes what is missing and repeats nothing.",
            boundary="post_commit",
            retryable=True,
        ),
        "DPONE_REPLAY_PUBLICATION_DIVERGED": info(
            meaning="The live table is neither the old nor the new generation; nothing more was sent.",
            remedy="Find who else writes to this table; `dpone status` shows the UUIDs.",
            boundary="post_commit",
        ),
        "DPONE_INTERNAL": info(
            meaning="Something happened that must not happen.",
            remedy="This is a defect: report it with the traceback that DPONE_DEBUG=1 prints.",
        ),
        "DPONE_CANCELLED": info(
            meaning="The load was cancelled.",
            remedy="Retry when you want it to go on.",
            retryable=True,
        ),
        "DPONE_DEMO_FAILED": info(
            meaning="The demo could not show what it promises.",
            remedy="Look at the log that the message names.",
            boundary="admission",
        ),
        # -- sandbox ---------------------------------------------------------------------------------------------
        "DPONE_SANDBOX_WHEEL_MISSING": info(
            meaning="The embedded server's wheel is not installed.",
            remedy="pip install 'airflow-provider-dpone[sandbox]'",
            boundary="admission",
        ),
        "DPONE_SANDBOX_FOLDER_HELD": info(
            meaning="Another sandbox server holds this folder.",
            remedy="Stop it with `dpone sandbox stop`, or choose another folder.",
            boundary="admission",
        ),
        "DPONE_SANDBOX_NOT_RUNNING": info(
            meaning="No sandbox server runs in this folder.",
            remedy="Start it with `dpone sandbox start`.",
            boundary="admission",
        ),
        "DPONE_SANDBOX_START_FAILED": info(
            meaning="The sandbox server ended before it was ready.",
            remedy="Look at the log that the message names.",
            boundary="admission",
        ),
        "DPONE_SANDBOX_PORT_TAKEN": info(
            meaning="The chosen port is taken.",
            remedy="Choose another port, or 0 for a free one.",
            boundary="admission",
        ),
    }


def _authoring_catalogue() -> dict[str, CodeInfo]:
    """The codes of single problems inside DPONE_MANIFEST_INVALID."""

    def info(meaning: str, remedy: str) -> CodeInfo:
        return CodeInfo(meaning=meaning, remedy=remedy, boundary="authoring")

    return {
        "DPONE_YAML_SYNTAX": info(
            "The text is not valid YAML 1.2.", "Correct the line; indent with spaces and quote text that holds a colon."
        ),
        "DPONE_YAML_ENCODING": info(
            "The text is not UTF-8 or holds a character that YAML does not allow.", "Save as UTF-8 without it."
        ),
        "DPONE_YAML_TOO_LARGE": info("The file is larger than 8 MiB.", "Split the manifest."),
        "DPONE_YAML_EMPTY": info("The file holds no document.", "Write a manifest that starts with its kind."),
        "DPONE_YAML_DOCUMENTS": info("The file holds several documents.", "Keep one document a file."),
        "DPONE_YAML_VERSION": info("The file asks for another YAML version.", "Remove the %YAML line: 1.2 is read."),
        "DPONE_YAML_DUPLICATE_KEY": info("A mapping has the same key twice.", "Remove one of the two."),
        "DPONE_YAML_MERGE_KEY": info("A merge key is doubled or merges no mapping.", "Use one << a mapping."),
        "DPONE_YAML_KEY": info("A key is not a string.", "Put the key in quotes."),
        "DPONE_YAML_ALIAS_EXPANSION": info("Aliases repeat too much.", "Write less with aliases."),
        "DPONE_YAML_ALIAS_SELF": info("An alias stands inside its own anchor.", "Break the circle."),
        "DPONE_YAML_ALIAS_UNKNOWN": info("An alias names no anchor.", "Define the anchor before the alias."),
        "DPONE_YAML_DEPTH": info("The document is nested too deep or repeats too much.", "Make it flatter."),
        "DPONE_YAML_TAG": info(
            "A tag is not read: only str, int, float, bool, null, map, seq are.", "Remove the tag; quote text."
        ),
        "DPONE_YAML_NUMBER": info(
            "A number is not finite or not exact.", "Write a finite number up to 2^64-1, or quote it as text."
        ),
        "DPONE_MANIFEST_UNREADABLE": info("The manifest file cannot be read.", "Correct its path or its permissions."),
        "DPONE_MANIFEST_KIND": info(
            "The manifest's kind is missing or not read.",
            "Write dpone.batch.v1, dpone.flow.v1, dpone.flow-fragment.v1 or etl-config.",
        ),
        "DPONE_MANIFEST_TOO_LARGE": info("The processes hold too many values together.", "Split the manifest."),
        "DPONE_MANIFEST_UNKNOWN_KEY": info("A key is not known at its place.", "Correct its spelling or remove it."),
        "DPONE_MANIFEST_MISSING_KEY": info("A required key is missing.", "Add it here or in the defaults."),
        "DPONE_MANIFEST_TYPE": info("A value has the wrong type.", "Write a value of the expected type."),
        "DPONE_MANIFEST_VALUE": info("A value is not allowed.", "Correct the value."),
        "DPONE_MANIFEST_NAME": info("A process name is not well-formed.", "Use a-z, 0-9 and _ only."),
        "DPONE_MANIFEST_DUPLICATE": info("Something that must be unique is there twice.", "Remove or rename one."),
        "DPONE_MANIFEST_CONFLICT": info("Two keys exclude or contradict each other.", "Keep one of the two."),
        "DPONE_MANIFEST_TEMPLATE": info("A value holds a template.", "Write the value itself, or use the operator."),
        "DPONE_MANIFEST_DEPENDENCY": info("depends_on names nothing or goes in a circle.", "Correct depends_on."),
        "DPONE_REPLAY_SELECTOR_TYPE": info(
            "sink.options.durable_quality_replay is not a boolean.", "Write true or false, unquoted, or leave it out."
        ),
        "DPONE_REPLAY_SELECTOR_MISPLACED": info(
            "durable_quality_replay stands at another place or in another spelling.",
            "Write sink: {options: {durable_quality_replay: true}}.",
        ),
        "DPONE_ROUTE_UNSUPPORTED": info("This version has no route for what is asked.", "See the message."),
    }


CATALOGUE: dict[str, CodeInfo] = _catalogue() | _authoring_catalogue()


class DponeError(Exception):
    """The root of all errors.

    Attributes: ``code`` (a key of ``CATALOGUE``), ``message`` (one safe sentence), ``boundary``, ``target_commit``
    (``None`` = no claim), ``retryable``, ``next_step`` (what to do), ``context`` (small strict-JSON facts for
    outcomes).
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        remedy: str = "",
        boundary: Boundary | None = None,
        retryable: bool | None = None,
        target_commit: TargetCommit | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        info = CATALOGUE[code]
        self.code = code
        self.message = message or info.meaning
        self.boundary: Boundary = boundary or info.boundary
        self.retryable = info.retryable if retryable is None else retryable
        self.target_commit = target_commit
        self.next_step = remedy or info.remedy
        self.context: dict[str, Any] = context or {}
        super().__init__(f"{code}: {self.message} {self.next_step}".strip())
