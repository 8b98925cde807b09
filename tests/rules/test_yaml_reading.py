"""Keys are texts: what YAML reads as a number, a truth or nothing has to be quoted."""

from __future__ import annotations

import pytest

from rules.yaml_reading import YamlMistake, parse


@pytest.mark.parametrize("key", ["5", "-1.5", "true", "False", "null", "~", ".inf", "!!int '5'"])
def test_a_key_that_is_no_text_is_a_mistake_with_its_line(key: str) -> None:
    with pytest.raises(YamlMistake, match="is no text: write it in quotes") as caught:
        parse(f"a:\n  {key}: x")
    assert caught.value.line == 2


def test_a_key_of_nothing_is_a_mistake_too() -> None:
    with pytest.raises(YamlMistake, match="the key that is empty is no text"):
        parse("? \n: x")


@pytest.mark.parametrize("key", ["'5'", '"true"', "on", "22:00", "!!str 5", "''"])
def test_a_key_that_is_text_is_read(key: str) -> None:
    values = parse(f"{key}: x").values
    assert [type(one) for one in values] == [str]
