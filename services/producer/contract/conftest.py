"""A PostgreSQL of its own, and each service started once against a database of its own."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import clients
import psycopg
import pytest
import stack
import values

# What the database-down tests wait for; the default of three seconds would only make them slow.
SETTINGS = {"DATABASE_ACQUIRE_TIMEOUT_MS": "1500"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--services", default="", help="names, separated by spaces; all six when empty")


def wanted(config: pytest.Config, protocol: str | None = None) -> list[stack.Kind]:
    return [kind for kind in stack.kinds(config.getoption("--services").split()) if protocol in (None, kind.protocol)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, protocol in (("any_kind", None), ("rest_kind", "rest"), ("grpc_kind", "grpc")):
        if fixture in metafunc.fixturenames:
            kinds = wanted(metafunc.config, protocol)
            metafunc.parametrize(fixture, kinds, ids=[kind.name for kind in kinds], scope="session")


class World:
    """The services that run, each with its database."""

    def __init__(self) -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="producers-"))
        self.directory.chmod(0o755)
        self.postgres = stack.Postgres(self.directory / "postgres", durable=False)
        self.postgres.start()
        self.running: dict[str, System] = {}

    def database(self, name: str) -> str:
        url = self.postgres.url.replace(f"/{stack.DATABASE}", f"/{name}")
        stack.migrate(url)
        return url

    def system(self, kind: stack.Kind) -> System:
        if kind.name not in self.running:
            url = self.database(kind.name.replace("-", "_"))
            self.running[kind.name] = System(self, url, stack.Service.start(kind, url, **SETTINGS).wait_ready())
        return self.running[kind.name]

    def close(self) -> None:
        try:
            for system in self.running.values():
                system.client.close()
                system.service.stop()
        finally:
            self.postgres.stop("immediate")
            shutil.rmtree(self.directory, ignore_errors=True)


class System:
    """One service, a client of it, and its table."""

    def __init__(self, world: World, url: str, service: stack.Service):
        self.world, self.url, self.service = world, url, service
        self.client = clients.connect(service)

    @property
    def kind(self) -> stack.Kind:
        return self.service.kind

    def sql(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, arguments)
            return cursor.fetchall() if cursor.description else []

    def empty(self) -> None:
        self.sql("TRUNCATE car_entities")

    def rows(self) -> dict[str, Any]:
        """`type/id` to attributes, numbers digit by digit."""
        return {
            f"{kind}/{key}": values.loads(data)
            for kind, key, data in self.sql("SELECT entity_type, id, data::text FROM car_entities")
        }

    def connections(self) -> int:
        return self.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", f"producer-{self.kind.name}"
        )[0][0]


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def _clean(world: World, kind: stack.Kind) -> System:
    system = world.system(kind)
    system.empty()
    return system


@pytest.fixture
def system(world: World, any_kind: stack.Kind) -> System:
    """Any of the services, its table empty."""
    return _clean(world, any_kind)


@pytest.fixture
def rest(world: World, rest_kind: stack.Kind) -> System:
    return _clean(world, rest_kind)


@pytest.fixture
def grpc_system(world: World, grpc_kind: stack.Kind) -> System:
    return _clean(world, grpc_kind)
