"""The Airflow connection ``dpone_clickhouse`` as an endpoint; the official ``clickhouse`` type is read too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, mask_secret

from dpone_provider.clickhouse.endpoint import Endpoint, endpoint_of
from dpone_provider.errors import DponeError
from dpone_provider.hooks.sql import sql_endpoint
from dpone_provider.provider_info import CONNECTION_TYPE, UI_BEHAVIOUR
from dpone_provider.sources.sql.endpoint import SqlEndpoint


class DponeClickHouseHook(BaseHook):
    """Looks a connection up and tries it. Holds the connection's id only, until it is asked."""

    conn_name_attr = "dpone_conn_id"
    default_conn_name = "dpone_clickhouse_default"
    conn_type = CONNECTION_TYPE
    hook_name = "ClickHouse (dpone)"

    def __init__(self, dpone_conn_id: str = default_conn_name, **options: Any) -> None:
        super().__init__(**options)
        self.dpone_conn_id = dpone_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """The connection form, for Airflow before 3.2 (later ones read the provider's description)."""
        return {key.replace("-", "_"): value for key, value in UI_BEHAVIOUR.items()}

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """The form's extra fields, for Airflow before 3.2."""
        from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
        from flask_babel import lazy_gettext
        from wtforms import BooleanField, IntegerField, StringField
        from wtforms.validators import Optional

        def text(label: str) -> Any:
            return StringField(lazy_gettext(label), widget=BS3TextFieldWidget())

        return {
            "http_port": IntegerField(lazy_gettext("HTTP port"), validators=[Optional()], widget=BS3TextFieldWidget()),
            "secure": BooleanField(lazy_gettext("TLS"), default=False),
            "verify": BooleanField(lazy_gettext("Verify the certificate"), default=True),
            "ca": text("CA file"),
            "replica_addresses": text("Replica addresses"),
            "authority_database": text("Authority database"),
        }

    def get_conn(self) -> Endpoint:
        """The endpoint; the clients are opened by the load itself."""
        return self.get_endpoint()

    def get_endpoint(self) -> Endpoint:
        """Look the connection up. Its password is masked in task logs from here on.

        Raises ``DponeError`` DPONE_CONNECTION_UNKNOWN, DPONE_CONNECTION_INVALID.
        """
        try:
            found = self.get_connection(self.dpone_conn_id)
        except AirflowNotFoundException:
            raise DponeError("DPONE_CONNECTION_UNKNOWN", f"Connection {self.dpone_conn_id!r} is not defined.") from None
        if found.password:
            mask_secret(found.password)
        names = ("conn_type", "host", "port", "login", "password", "schema", "extra")
        return endpoint_of(self.dpone_conn_id, {name: getattr(found, name) for name in names})

    def test_connection(self) -> tuple[bool, str]:
        """Sign in on both ports. The message never carries a secret or a driver's text."""
        from dpone_provider.clickhouse.probe import probe

        try:
            return True, probe(self.get_endpoint())
        except DponeError as error:
            return False, f"{error.message} {error.next_step} ({error.code})"


class AirflowConnections:
    """The ``Connections`` port over Airflow's own look-up, used inside ``execute()`` only (F2).

    ``ids``: an Airflow connection id for each ``connection_ref`` that does not name its own.
    """

    def __init__(self, ids: Mapping[str, str] | None = None) -> None:
        self._ids = ids or {}

    def endpoint(self, ref: str) -> Endpoint:
        """Resolve one id."""
        return DponeClickHouseHook(self._ids.get(ref, ref)).get_endpoint()

    def sql_endpoint(self, ref: str) -> SqlEndpoint:
        """Resolve the id of a SQL source."""
        return sql_endpoint(self._ids.get(ref, ref))
