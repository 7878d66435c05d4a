"""The images and their compose file, as far as they can be held to the sources without a container engine."""

from __future__ import annotations

import pathlib
import re
import tomllib

import pytest
import stack
import yaml

HERE = stack.HERE
COMPOSE = yaml.safe_load((HERE / "compose.yaml").read_text())


def dockerfile(kind: stack.Kind) -> pathlib.Path:
    return HERE / kind.name / "Dockerfile"


def instructions(kind: stack.Kind, name: str) -> list[list[str]]:
    lines = dockerfile(kind).read_text().replace("\\\n", " ").splitlines()
    return [line.split()[1:] for line in lines if line.startswith(f"{name} ")]


def ports(kind: stack.Kind) -> list[int]:
    return [kind.port] if kind.protocol == "rest" else [kind.port, kind.metrics_port]


def test_a_profile_starts_one_service_and_what_it_needs(any_kind: stack.Kind) -> None:
    name = f"producer-{any_kind.name}"
    started = {key for key, service in COMPOSE["services"].items() if name in service["profiles"]}
    assert started == {name, "producer-postgres", "producer-migrate"}
    service = COMPOSE["services"][name]
    assert set(service["depends_on"]) <= started
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports(any_kind)]
    # Nothing of a start is hidden: every service of the file has a profile.
    assert all(service["profiles"] for service in COMPOSE["services"].values())


def test_an_image_is_built_from_what_is_there(any_kind: stack.Kind) -> None:
    build = COMPOSE["services"][f"producer-{any_kind.name}"]["build"]
    context = (HERE / build["context"]).resolve()
    assert (context / build["dockerfile"]).resolve() == dockerfile(any_kind)
    for *sources, _ in instructions(any_kind, "COPY"):
        for source in sources:
            assert source.startswith("--from=") or sources[0].startswith("--from=") or (context / source).exists()
    assert instructions(any_kind, "EXPOSE") == [[str(port) for port in ports(any_kind)]]
    assert instructions(any_kind, "USER")[-1] != ["root"]


def test_an_image_is_built_with_the_versions_of_the_repository(any_kind: stack.Kind) -> None:
    builder = instructions(any_kind, "FROM")[0][0]
    if any_kind.name.startswith("rust-"):
        wanted = tomllib.loads((stack.ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
        assert builder.startswith(f"rust:{wanted}-")
    elif any_kind.name.startswith("go-"):
        wanted = re.search(r"^go (\d+\.\d+)", (HERE / "go.mod").read_text(), re.MULTILINE)[1]
        assert builder.startswith(f"golang:{wanted}.")
    else:
        wanted = re.search(r"<java.version>(\d+)<", (HERE / "pom.xml").read_text())[1]
        assert builder.endswith(f"-temurin-{wanted}")


@pytest.mark.parametrize("name", ["producer-postgres", "producer-migrate"])
def test_the_database_is_the_version_that_the_tests_use(name: str) -> None:
    assert COMPOSE["services"][name]["image"].startswith("postgres:15.")
