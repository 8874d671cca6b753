"""A small Airflow for the pages: its REST API as far as they ask it, its sessions, a UI that frames a tab.

It keeps to what Airflow 3.3 answers, 3.1's unencoded ids among it; a scenario through a real one is in tests/airflow.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from dpone_provider.page.document import KEY, Evidence
from dpone_provider.web.app import app as pages

ADMIN, STRANGER = "admin-token", "stranger-token"
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"


@attrs.define
class Instance:
    """A task instance. ``left``: the value of its XCom, None: there is none."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    state: str | None = "success"
    left: Any = None

    @property
    def names(self) -> dict[str, Any]:
        return {"dag_id": self.dag_id, "run_id": self.run_id, "task_id": self.task_id, "map_index": self.map_index}


class Unrelated(BaseHTTPMiddleware):
    """What Airflow has as well: a middleware that reads the request and waits for its end."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)


@attrs.define
class StubAirflow:
    """``forbidden``: DAGs that nobody may see. ``asked``: every call of the API, with who made it."""

    instances: list[Instance] = attrs.field(factory=list)
    forbidden: set[str] = attrs.field(factory=set)
    broken: bool = False
    asked: list[tuple[str, str]] = attrs.field(factory=list)

    def add(self, task_id: str, left: Any, **changes: Any) -> Instance:
        """A task instance that left something."""
        value = json.dumps(left.payload()) if isinstance(left, Evidence) else left
        instance = Instance(**{"dag_id": "d", "run_id": "r", "task_id": task_id, "left": value, **changes})
        self.instances.append(instance)
        return instance

    def app(self, root_path: str = "") -> Starlette:
        """The web server; ``root_path`` as ``[api] base_url`` gives one."""
        instances = "/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        routes = [
            Mount("/dpone", app=pages),
            Route(instances + "/{task_id}/xcomEntries", self.entries),
            Route(instances + "/{task_id}/xcomEntries/{key}", self.entry),
            Route(instances + "/{task_id}/{map_index:int}", self.instance),
            Route(instances + "/{task_id}", self.instance),
            Route("/ui/{dark}/{href:path}", self.ui),
        ]
        inner = Starlette(routes=routes, middleware=[Middleware(Unrelated)])

        class Rooted(Starlette):
            async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                if root_path:
                    scope["root_path"] = root_path
                scope["app"] = self
                await inner.middleware_stack(scope, receive, send)  # type: ignore[misc]

        inner.middleware_stack = inner.build_middleware_stack()
        return Rooted()

    async def instance(self, request: Request) -> Response:
        found, refused = self._find(request)
        if found is None:
            return refused
        return JSONResponse({**found.names, "state": found.state, "try_number": 1, "operator": "DponeLoadOperator"})

    async def entry(self, request: Request) -> Response:
        found, refused = self._find(request)
        if found is None or found.left is None or request.path_params["key"] != KEY:
            return refused
        return JSONResponse({"key": KEY, **found.names, "value": found.left})

    async def entries(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        asked = request.path_params
        shown = [
            each
            for each in self.instances
            if each.left is not None
            and each.dag_id not in self.forbidden
            and asked["dag_id"] in ("~", each.dag_id)
            and asked["run_id"] in ("~", each.run_id)
        ]
        limit = int(request.query_params["limit"])
        return JSONResponse(
            {"xcom_entries": [{"key": KEY, **each.names} for each in shown[:limit]], "total_entries": len(shown)}
        )

    async def ui(self, request: Request) -> Response:
        dark = "dark" if request.path_params["dark"] == "dark" else "light"
        base = request.scope.get("root_path", "") + "/"
        return HTMLResponse(
            f'<!doctype html><html class="{dark}" lang="en"><head><base href="{base}"><title>UI</title>'
            '<link rel="icon" href="data:,"><style>html,body,iframe{margin:0;border:0;width:100%;height:100%}</style>'
            f'</head><body><iframe title="Load proof" sandbox="{SANDBOX}" src="{request.path_params["href"]}"></iframe>'
            "</body></html>"
        )

    def _refused(self, request: Request) -> Response | None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or request.cookies.get("_token", "")
        self.asked.append((request.url.path, token))
        if self.broken:
            return Response("not JSON", 200)
        if token not in (ADMIN, STRANGER):
            return JSONResponse({"detail": "Not authenticated"}, 401)
        if token == STRANGER or request.path_params["dag_id"] in self.forbidden:
            return JSONResponse({"detail": "Forbidden"}, 403)
        return None

    def _find(self, request: Request) -> tuple[Instance | None, Response]:
        refused = self._refused(request)
        if refused is not None:
            return None, refused
        asked = request.path_params
        index = int(asked.get("map_index", request.query_params.get("map_index", -1)))
        names = {"dag_id": asked["dag_id"], "run_id": asked["run_id"], "task_id": asked["task_id"], "map_index": index}
        found = next((each for each in self.instances if each.names == names), None)
        return found, JSONResponse({"detail": "Not found"}, 404)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The app behind a real server; its address."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
