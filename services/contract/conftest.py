"""The same cases from pytest: `pytest cases/inference.yaml --base-url URL`, each case an item."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.cases import Case, load
from contract.session import Session, add_options


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser.getgroup("contract").addoption)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    option = parent.config.option
    if file_path.suffix == ".yaml" and (option.base_url or option.start):
        return CaseFile.from_parent(parent, path=file_path)
    return None


class CaseFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        self.suite = load(self.path)
        for case in self.suite.cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)

    def setup(self) -> None:
        self.contract = Session(self.suite, self.config.option)

    def teardown(self) -> None:
        stopped = self.contract.stop()
        if stopped and stopped.state == "failed":
            pytest.fail(stopped.text(), pytrace=False)


class CaseItem(pytest.Item):
    def __init__(self, *, case: Case, **kwargs) -> None:
        super().__init__(**kwargs)
        self.case = case

    def runtest(self) -> None:
        result = self.parent.contract.runner.run(self.case)
        if result.state == "failed":
            pytest.fail(result.text(), pytrace=False)
        if result.state != "passed":
            pytest.skip(result.why)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
