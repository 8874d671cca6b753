"""The plugin of Airflow: the load's page as a tab of a task instance, its lists as a tab of a DAG run and in the menu.

Airflow loads this module in every component, so it imports nothing but Airflow; the pages are imported by the first
request. External views exist from Airflow 3.1 on; 2.11 and 3.0 ignore them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowPlugin

from dpone_provider.links import LOAD_TAB


class Pages:
    """The ASGI app, imported when it is first asked."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from dpone_provider.web.app import app

        await app(scope, receive, send)


class DponePlugin(AirflowPlugin):
    """Relative addresses: they stay right below any ``[api] base_url``."""

    name = "dpone"
    fastapi_apps: ClassVar[list[Any]] = [{"app": Pages(), "url_prefix": "/dpone", "name": "dpone"}]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Load proof",
            "href": "dpone/loads/{DAG_ID}/{RUN_ID}/{TASK_ID}/{MAP_INDEX}",
            "destination": "task_instance",
            "url_route": LOAD_TAB,
        },
        {
            "name": "Loads",
            "href": "dpone/loads/{DAG_ID}/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "dpone_loads_of_run",
        },
        {
            "name": "Loads",
            "href": "dpone/loads",
            "destination": "nav",
            "category": "browse",
            "url_route": "dpone_loads",
        },
    ]
