"""A sink as trusted Python code composes it: where it is, whether it replays durably, and who observes it (R1)."""

from __future__ import annotations

import attrs

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.replay.target_reader import BoundedTargetAcceptanceReader


@attrs.frozen
class ClickHouseSink:
    """``connector``: the server; ``durable_quality_replay``: the manifest's selector, strictly boolean.

    ``target_acceptance_reader``: keyword only, and only with the selector on; None: the load composes its own
    supervised reader from ``connector`` when the manifest asks for the target. Raises ``DponeError``
    DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED for a reader without the selector, ``TypeError`` for no boolean.
    """

    connector: Endpoint = attrs.field(validator=attrs.validators.instance_of(Endpoint))
    durable_quality_replay: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    target_acceptance_reader: BoundedTargetAcceptanceReader | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.target_acceptance_reader is not None and not self.durable_quality_replay:
            raise DponeError(
                "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED",
                "A target_acceptance_reader is of use with durable_quality_replay only.",
                remedy="Turn durable_quality_replay on, or leave the reader out.",
            )
