"""The stage's assertions are rewritten like a test's."""

import pytest

pytest.register_assert_rewrite("tests.wire.stage", "tests.wire.readers", "tests.wire.matrix", "tests.wire.wires")
