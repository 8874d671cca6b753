"""The pages over HTTP, behind a stub of Airflow: who may see what, addresses, refusals, what is passed on."""

from __future__ import annotations

import attrs
import pytest
from starlette.testclient import TestClient

from dpone_provider.page.document import KEY
from tests.page import documents
from tests.web.stub import ADMIN, STRANGER, StubAirflow

RUN = "manual__2026-11-29T13:09:02.5+00:00"


@pytest.fixture
def airflow() -> StubAirflow:
    stub = StubAirflow()
    operation = {**documents.OPERATION, "dag_id": "d", "run_id": RUN, "task_id": "orders"}
    stub.add("orders", attrs.evolve(documents.proven(), operation=operation), run_id=RUN)
    return stub


def client(airflow: StubAirflow, token: str = ADMIN, **options: str) -> TestClient:
    return TestClient(airflow.app(**options), headers={"cookie": f"other=1; _token={token}"} if token else {})


@pytest.mark.contract("F4")
@pytest.mark.parametrize(
    "run", [RUN, RUN.replace("+", "%2B").replace(":", "%3A")], ids=["as Airflow 3.1 writes it", "encoded"]
)
@pytest.mark.parametrize("index", ["{MAP_INDEX}", "%7BMAP_INDEX%7D", "-1"])
def test_a_run_id_with_a_plus_and_a_map_index_that_is_none_find_their_load(
    airflow: StubAirflow, run: str, index: str
) -> None:
    answer = client(airflow).get(f"/dpone/loads/d/{run}/orders/{index}")
    assert answer.status_code == 200
    assert "Yes, proven" in answer.text
    assert "by hand" not in answer.text


def test_a_mapped_task_instance_has_a_load_of_its_own(airflow: StubAirflow) -> None:
    airflow.add("mapped", documents.failed(), run_id=RUN, map_index=3)
    assert "Failed" in client(airflow).get(f"/dpone/loads/d/{RUN}/mapped/3").text
    assert client(airflow).get(f"/dpone/loads/d/{RUN}/mapped/4").status_code == 404


@pytest.mark.contract("F4")
@pytest.mark.parametrize(("token", "status"), [("", 401), ("someone", 401), (STRANGER, 403)])
def test_what_airflow_refuses_is_refused(airflow: StubAirflow, token: str, status: int) -> None:
    for place in (f"/dpone/loads/d/{RUN}/orders/-1", f"/dpone/loads/d/{RUN}", "/dpone/loads"):
        answer = client(airflow, token).get(place)
        assert answer.status_code == status
        assert "orders" not in answer.text
        assert "6252fc158d27" not in answer.text


def test_the_caller_is_passed_on_and_nothing_else(airflow: StubAirflow) -> None:
    client(airflow).get(f"/dpone/loads/d/{RUN}/orders/-1", headers={"authorization": "Basic YTpi"})
    client(airflow, "").get(f"/dpone/loads/d/{RUN}/orders/-1", headers={"authorization": f"Bearer {ADMIN}"})
    assert {token for _, token in airflow.asked} == {ADMIN}
    assert len(airflow.asked) == 4, "two calls a page"


def test_a_load_of_another_dag_in_a_list_is_not_shown_to_who_may_not_see_it(airflow: StubAirflow) -> None:
    airflow.add("payments", attrs.evolve(documents.failed(), target="secret.payments"), dag_id="hidden")
    airflow.forbidden.add("hidden")
    text = client(airflow).get("/dpone/loads").text
    assert "shop.orders" in text
    assert "secret.payments" not in text


def test_a_list_shows_the_loads_of_its_run_alone(airflow: StubAirflow) -> None:
    airflow.add("payments", attrs.evolve(documents.failed(), target="shop.payments"), run_id="other")
    assert "shop.payments" not in client(airflow).get(f"/dpone/loads/d/{RUN}").text
    text = client(airflow).get("/dpone/loads").text
    assert text.index("shop.payments") < text.index("shop.orders"), "the worst first"


def test_a_task_without_evidence_is_no_claim(airflow: StubAirflow) -> None:
    airflow.add("new", None, run_id=RUN, state="running")
    answer = client(airflow).get(f"/dpone/loads/d/{RUN}/new/-1")
    assert answer.status_code == 200
    assert "No claim" in answer.text
    assert "That says nothing about ClickHouse." in answer.text
    assert 'http-equiv="refresh"' in answer.text


@pytest.mark.parametrize("left", ["{}", "no JSON", {"kind": "dpone.evidence.v9"}, [1], "x" * 100_000, 7])
def test_what_is_no_evidence_is_said_to_be_none(airflow: StubAirflow, left: object) -> None:
    airflow.add("edited", left, run_id=RUN)
    answer = client(airflow).get(f"/dpone/loads/d/{RUN}/edited/-1")
    assert answer.status_code == 200
    assert "cannot be read as evidence" in answer.text
    assert len(answer.text) < 30_000
    assert "edited" in client(airflow).get(f"/dpone/loads/d/{RUN}").text, "its list goes on"


def test_evidence_of_another_task_is_said_to_be_foreign(airflow: StubAirflow) -> None:
    airflow.add("copied", airflow.instances[0].left, run_id=RUN)
    assert "somebody wrote it here by hand" in client(airflow).get(f"/dpone/loads/d/{RUN}/copied/-1").text


@pytest.mark.parametrize(
    "place",
    [
        "/dpone/other", "/dpone/loads/d", "/dpone/loads/d/r/t", "/dpone/loads/d/r/t/1/2", "/dpone/loads/d/r/t/x",
        "/dpone/loads/d/r/t/-2", "/dpone/loads/d/r/t/99999999999", "/dpone/loads/d/%2E%2E/t/-1",
        "/dpone/loads/d/%2e/t/-1", "/dpone/loads/d%2Fx/r/t/-1", "/dpone/loads/d//t/-1", "/dpone/loads/d/gone/t/-1",
    ],
)  # fmt: skip
def test_other_addresses_are_not_there(airflow: StubAirflow, place: str) -> None:
    assert client(airflow).get(place).status_code == 404


def test_it_can_be_read_and_nothing_else(airflow: StubAirflow) -> None:
    assert client(airflow).post("/dpone/loads").status_code == 405
    head = client(airflow).head("/dpone/loads")
    assert (head.status_code, head.content) == (200, b"")
    assert airflow.asked[0][0].startswith("/api/v2/"), "the POST asked nothing"


def test_an_api_that_gives_no_json_is_no_page_of_a_load(airflow: StubAirflow) -> None:
    airflow.broken = True
    answer = client(airflow).get(f"/dpone/loads/d/{RUN}/orders/-1")
    assert answer.status_code == 502
    assert "That says nothing about ClickHouse." in answer.text


@pytest.mark.parametrize("sent", ["", "/prefix"], ids=["stripped by the proxy", "kept by the proxy"])
def test_addresses_stay_right_below_a_base_url(airflow: StubAirflow, sent: str) -> None:
    asks = client(airflow, root_path="/prefix")
    listed = asks.get(f"{sent}/dpone/loads")
    assert './loads/d/manual__2026-11-29T13%3A09%3A02.5%2B00%3A00/orders/-1"' in listed.text
    page = asks.get(f"{sent}/dpone/loads/d/{RUN}/orders/-1")
    assert page.status_code == 200
    assert 'href="../../../../loads/d/manual__2026-11-29T13%3A09%3A02.5%2B00%3A00"' in page.text


def test_every_answer_has_its_own_nonce_and_may_be_framed_by_airflow_alone(airflow: StubAirflow) -> None:
    asks = client(airflow)
    policies = [
        asks.get(place).headers["content-security-policy"] for place in ("/dpone/loads", "/dpone/loads", "/dpone/no")
    ]
    assert len(set(policies)) == 3
    for policy in policies:
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'self'" in policy
    answer = asks.get("/dpone/loads")
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")


def test_a_list_is_bounded_and_says_so(airflow: StubAirflow) -> None:
    for number in range(60):
        airflow.add(f"t{number}", attrs.evolve(documents.proven(), target=f"shop.t{number}"), run_id=RUN)
    text = client(airflow).get(f"/dpone/loads/d/{RUN}").text
    assert text.count("<tr>") == 51
    assert "There are more than are shown." in text
    assert len(airflow.asked) == 101
    assert KEY in airflow.asked[-1][0]
