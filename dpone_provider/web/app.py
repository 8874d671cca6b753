"""The pages inside Airflow's web server: ``loads``, ``loads/<dag>/<run>``, ``loads/<dag>/<run>/<task>/<map index>``.

A plain ASGI app. It reads through ``AirflowRest`` only: no database, no ClickHouse, no connection of its own.
"""

from __future__ import annotations

import secrets
from urllib.parse import quote, unquote

from dpone_provider.page import render
from dpone_provider.page.document import NotEvidence
from dpone_provider.page.loads import loads_view
from dpone_provider.page.view import REFRESH, load_view
from dpone_provider.web.airflow_rest import AirflowRest, Message, Receive, Refused, Send
from dpone_provider.web.loads import evidence_of, listed, task_of

PREFIX = "/dpone"
NO_INDEX = "{MAP_INDEX}"  # what the UI leaves of a task that is not mapped
_NOTICES = {
    401: ("Not signed in", "Airflow does not know who asks. Sign in to Airflow, then open this page again."),
    403: ("Not for you to see", "Airflow does not let you see this task instance or what it recorded."),
    404: ("Nothing here", "Airflow knows no such task instance, or does not show it to you."),
    405: ("Read only", "This page can be read, and nothing else."),
}
_OTHER = ("Airflow did not answer", "Its REST API gave no usable answer. That says nothing about ClickHouse.")


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """One request."""
    if scope["type"] != "http":
        raise RuntimeError("only HTTP is served")
    nonce = secrets.token_urlsafe(16)
    try:
        if scope["method"] not in ("GET", "HEAD"):
            raise Refused(405)
        status, html = 200, await _page(scope, nonce)
    except Refused as refused:
        status = refused.status if refused.status in _NOTICES else 502
        html = render.notice_page(*_NOTICES.get(status, _OTHER), nonce=nonce)
    body = html.encode("utf-8", "replace")
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-length": str(len(body)),
        "content-security-policy": render.policy(nonce),
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})


async def _page(scope: Message, nonce: str) -> str:
    path = _path(scope)
    names = [unquote(segment) for segment in path.rstrip("/").split("/")] if path.strip("/") else ["loads"]
    if names[0] != "loads" or any(name in ("", ".", "..") or "/" in name for name in names):
        raise Refused(404)
    rest, here = AirflowRest(scope), "../" * path.count("/") or "./"
    match names[1:]:
        case []:
            return await _list(rest, nonce, here)
        case [dag_id, run_id]:
            return await _list(rest, nonce, here, dag_id, run_id)
        case [dag_id, run_id, task_id, index]:
            up = f"{here}loads/{quote(dag_id, safe='')}/{quote(run_id, safe='')}"
            return await _load(rest, nonce, dag_id, run_id, task_id, _map_index(index), up)
    raise Refused(404)


async def _load(rest: AirflowRest, nonce: str, dag_id: str, run_id: str, task_id: str, map_index: int, up: str) -> str:
    task = await task_of(rest, dag_id, run_id, task_id, map_index)
    try:
        evidence = await evidence_of(rest, task)
        why = "This task instance has recorded no load, or its newest try has not come to it yet."
    except NotEvidence as wrong:
        evidence, why = None, f"What this task instance left cannot be read as evidence. {wrong}"
    if evidence is None:
        refresh = REFRESH["waiting"] if task.state in (None, "running", "queued", "scheduled") else 0
        return render.silent_page(task, nonce=nonce, why=why, refresh=refresh)
    return render.load_page(load_view(evidence, task), nonce=nonce, up=up)


async def _list(rest: AirflowRest, nonce: str, here: str, *names: str) -> str:
    loads = await listed(rest, *names)
    scope = names[-1] if names else "this Airflow"
    return render.loads_page(loads_view(loads.found, scope=scope, within=f"{here}loads/", more=loads.more), nonce=nonce)


def _path(scope: Message) -> str:
    """The path below the app, as it was sent: percent signs tell a slash in a name from one between names."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(scope["path"])
    path = path.partition("?")[0]
    outer = quote(scope.get("root_path", "").removesuffix(PREFIX))
    return path.removeprefix(outer).removeprefix(PREFIX).lstrip("/")


def _map_index(text: str) -> int:
    if text in (NO_INDEX, "-1"):
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(404)
    return int(text)
