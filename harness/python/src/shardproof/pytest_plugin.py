"""pytest: subjects of test files become tests of their own.

Every function that a test file decorates with shardproof.attention or shardproof.mlp is fuzzed for
--shardproof-time (default 5s) with --shardproof-seed; a failure shows its one-line case and the
golden that holds it. The marker `@pytest.mark.shardproof_time("30s")` is for single tests that call
shardproof.assert_holds themselves through the fixture `shardproof_time`.
"""

import pytest

from . import _run, _subjects


def pytest_addoption(parser):
    group = parser.getgroup("shardproof")
    group.addoption("--shardproof-time", default="5s", help="how long each subject is fuzzed")
    group.addoption("--shardproof-seed", default="0", help="a number or a commit's hash")


def pytest_configure(config):
    config.addinivalue_line("markers", "shardproof_time(duration): how long this test may fuzz")


@pytest.fixture
def shardproof_time(request):
    marker = request.node.get_closest_marker("shardproof_time")
    return marker.args[0] if marker else request.config.getoption("--shardproof-time")


class SubjectItem(pytest.Item):
    """A campaign of one subject."""

    def __init__(self, *, subject, **named):
        super().__init__(**named)
        self.subject = subject

    def runtest(self):
        _run.assert_holds(self.subject, time=self.config.getoption("--shardproof-time"),
                          seed=self.config.getoption("--shardproof-seed"))

    def repr_failure(self, excinfo, style=None):
        if excinfo.errisinstance((AssertionError, _run.Unavailable)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"shardproof: {self.name}"


def pytest_pycollect_makeitem(collector, name, obj):
    if isinstance(obj, _subjects.Subject) and obj.where[0] == collector.module.__name__:
        return SubjectItem.from_parent(collector, name=name, subject=obj)
    return None
