"""The public names: each is there, and importing them costs nothing until it is used."""

from __future__ import annotations

import pytest

from dpone_provider import api


@pytest.mark.contract("Q9")
@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    found = getattr(api, name)
    assert callable(found)
    assert dir(api).count(name) == 1


def test_no_other_name_is_public() -> None:
    with pytest.raises(AttributeError, match="Receipt"):
        _ = api.Receipt
