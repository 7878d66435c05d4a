"""The database goes and comes back; writers meet on one row."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import clients
import psycopg
import stack
from clients import STORED, Outcome
from conftest import System, World
from test_cases import event

UNAVAILABLE = "Database is unavailable"
CLIENTS = 8
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def until(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen before the deadline"
        time.sleep(0.05)


def entities(*updates: tuple[str, dict[str, Any]]) -> Any:
    body = [{"entityType": "Car", "entityId": key, "updatedAttributes": attributes} for key, attributes in updates]
    return {"eventHeader": {"eventName": "x"}, "eventBody": {"entities": body}}


def test_database_down_and_back(system: System) -> None:
    assert system.client.send(event(None, {"before": True})) == Outcome("ok", STORED)
    system.world.postgres.stop()
    try:
        assert system.client.send(event()) == Outcome("unavailable", UNAVAILABLE)
        assert system.client.health() == (False, UNAVAILABLE)
        # What needs no database works as before.
        assert system.client.send({}).result == "refused"
        if system.kind.protocol == "rest":
            body = "[" + ",".join([clients.values.dumps(event())] * 3) + "]"
            response = system.client.post("/api/v1/events/bulk", body)
            assert (response.status_code, response.json()) == (503, {"error": UNAVAILABLE, "status": 503})
        else:
            until(lambda: not system.client.serving())
    finally:
        system.world.postgres.start()
    # By itself, without a restart.
    until(lambda: system.client.send(event(None, {"after": True})).result == "ok")
    assert system.client.health()[0]
    if system.kind.protocol == "grpc":
        until(system.client.serving)
    assert system.rows() == {"Car/1": {"before": True, "after": True}}


def test_a_crash_of_the_database_leaves_no_half_event(system: System) -> None:
    """PostgreSQL is killed under load: an event is there with both its entities or not at all, and what was confirmed is there."""
    confirmed: set[int] = set()
    sent, stop = [0] * CLIENTS, threading.Event()

    def write(worker: int) -> None:
        client = clients.connect(system.service)
        while not stop.is_set():
            number = worker * 1_000_000 + sent[worker]
            sent[worker] += 1
            if client.send(entities((f"{number}-a", {"n": number}), (f"{number}-b", {"n": number}))).result == "ok":
                confirmed.add(number)
        client.close()

    with ThreadPoolExecutor(CLIENTS) as pool:
        workers = [pool.submit(write, worker) for worker in range(CLIENTS)]
        try:
            until(lambda: len(confirmed) > 50)
            system.world.postgres.stop("immediate")
            system.world.postgres.start()
            seen = len(confirmed)
            until(lambda: len(confirmed) > seen + 50)
        finally:
            stop.set()
        for worker in workers:
            worker.result()
    keys = set(system.rows())
    for number in {int(key.split("/")[1].split("-")[0]) for key in keys} | confirmed:
        present = [f"Car/{number}-{half}" in keys for half in "ab"]
        assert present == [True, True], (number, number in confirmed)


def test_another_failure_is_internal(system: System) -> None:
    system.sql("ALTER TABLE car_entities RENAME TO elsewhere")
    try:
        assert system.client.send(event()) == Outcome("internal", "Internal server error")
    finally:
        system.sql("ALTER TABLE elsewhere RENAME TO car_entities")
    assert system.client.send(event()) == Outcome("ok", STORED)


def test_eight_writers_on_one_entity_lose_nothing(system: System) -> None:
    """Property: whatever the writers do, every attribute ends with the last value that its only writer gave it."""
    seed = random.randrange(1 << 32)
    print("seed", seed)

    def write(worker: int) -> dict[str, Any]:
        dice, client, last = random.Random(seed + worker), clients.connect(system.service), {}
        for step in range(40):
            names = {f"w{worker}-{dice.randrange(12)}" for _ in range(dice.randint(1, 4))}
            attributes = {name: clients.values.Number(step) for name in names}
            assert client.send(entities(("shared", attributes))) == Outcome("ok", STORED)
            last.update(attributes)
        client.close()
        return last

    with ThreadPoolExecutor(CLIENTS) as pool:
        expected = {name: value for last in pool.map(write, range(CLIENTS)) for name, value in last.items()}
    assert system.rows() == {"Car/shared": expected}


def test_rows_are_locked_in_the_order_of_their_keys(system: System) -> None:
    """
    While `a` is locked, an event with `a, b` waits for it, then one with `b, a`. Had the second taken `b` first, each
    would hold what the other wants once `a` is free.
    """
    assert system.client.send(entities(("a", {}), ("b", {}))).result == "ok"
    with ThreadPoolExecutor(2) as pool:
        outcomes = []
        with psycopg.connect(system.url) as blocker:
            blocker.execute("SELECT FROM car_entities WHERE id = 'a' FOR UPDATE")
            for order in ("ab", "ba"):
                event_ = entities(*((key, {order: True}) for key in order))
                outcomes.append(pool.submit(clients.connect(system.service).send, event_))
                until(lambda: system.sql(WAITING)[0][0] == len(outcomes))
        assert [outcome.result() for outcome in outcomes] == [Outcome("ok", STORED)] * 2
    assert system.rows() == {f"Car/{key}": {"ab": True, "ba": True} for key in "ab"}


def test_the_pool_has_ten_connections(system: System) -> None:
    """Thirty events wait for one row: ten of them in the database, the others in the service; then all are stored."""
    assert system.client.send(event()).result == "ok"

    def write(number: int) -> Outcome:
        client = clients.connect(system.service)
        try:
            return client.send(event(None, {f"n{number}": True}))
        finally:
            client.close()

    with ThreadPoolExecutor(30) as pool:
        with psycopg.connect(system.url) as blocker:
            blocker.execute("SELECT FROM car_entities FOR UPDATE")
            outcomes = [pool.submit(write, number) for number in range(30)]
            until(lambda: system.sql(WAITING)[0][0] == 10)
            assert system.connections() == 10
        assert [outcome.result() for outcome in outcomes] == [Outcome("ok", STORED)] * 30
    assert len(system.rows()["Car/1"]) == 30
    assert system.connections() == 10


def test_a_table_of_an_earlier_implementation_keeps_its_rows(world: World) -> None:
    """Keyed by id alone and without defaults: the migrations widen the key, and lose nothing, however often they run."""
    name = "earlier"
    url = world.database(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE car_entities")
        connection.execute(
            "CREATE TABLE car_entities (id varchar(255) PRIMARY KEY, entity_type varchar(255) NOT NULL,"
            " created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, data jsonb NOT NULL)"
        )
        connection.execute("INSERT INTO car_entities VALUES ('1', 'Car', now(), now(), '{\"a\": 1}')")
        for _ in range(2):
            stack.migrate(url)
        connection.execute("INSERT INTO car_entities (id, entity_type, data) VALUES ('1', 'Loan', '{}')")
        rows = connection.execute("SELECT entity_type, data FROM car_entities ORDER BY 1").fetchall()
    assert rows == [("Car", {"a": 1}), ("Loan", {})]
