"""What Airflow is told about this provider (F6). Imports nothing: Airflow reads it in every component."""

from __future__ import annotations

from typing import Any

from dpone_provider import __version__

CONNECTION_TYPE = "dpone_clickhouse"
HOOK = "dpone_provider.hooks.clickhouse.DponeClickHouseHook"
EXTRA_LINK = "dpone_provider.links.OperationLink"

_TEXT = {"type": ["string", "null"]}
_CONNECTION_FIELDS: dict[str, Any] = {
    "http_port": {
        "label": "HTTP port",
        "schema": {"type": ["integer", "null"], "minimum": 1, "maximum": 65535},
        "description": "Port for bulk data; 8123, with TLS 8443, when empty",
    },
    "secure": {"label": "TLS", "schema": {"type": ["boolean", "null"], "default": False}},
    "verify": {"label": "Verify the certificate", "schema": {"type": ["boolean", "null"], "default": True}},
    "ca": {"label": "CA file", "schema": _TEXT, "description": "Path on the worker; empty for the system's"},
    "replica_addresses": {
        "label": "Replica addresses",
        "schema": _TEXT,
        "description": 'JSON: {"advertised name": "host:native port"}',
    },
    "authority_database": {
        "label": "Authority database",
        "schema": _TEXT,
        "description": "Database of dpone_replay_authority; empty for the target's",
    },
}
UI_BEHAVIOUR: dict[str, Any] = {
    "hidden-fields": [],
    "relabeling": {"port": "Native port", "schema": "Database"},
    "placeholders": {"host": "clickhouse.example.com", "port": "9000", "login": "default"},
}


def get_provider_info() -> dict[str, Any]:
    """Airflow's provider description, kebab-case keys."""
    return {
        "package-name": "airflow-provider-dpone",
        "name": "dpone",
        "description": "Declarative ClickHouse loads that are safe to retry and cannot report success without proof.",
        "versions": [__version__],
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-name": "ClickHouse (dpone)",
                "hook-class-name": HOOK,
                "ui-field-behaviour": UI_BEHAVIOUR,
                "conn-fields": _CONNECTION_FIELDS,
            }
        ],
        "extra-links": [EXTRA_LINK],
        "config": {
            "dpone": {
                "description": "Settings of airflow-provider-dpone.",
                "options": {
                    "namespace": {
                        "description": "Name of this deployment, a part of every operation's identity.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "production",
                        "default": "default",
                    }
                },
            }
        },
    }
