"""YAML as manifests have it."""

from __future__ import annotations

import pytest
import yaml

from tenantry.core import yamls


def test_empty_documents_are_none() -> None:
    assert yamls.read("---\n# nothing\n---\na: 1\n---\n---\n[b]\n") == [{"a": 1}, ["b"]]
    assert yamls.read(b"") == []


def test_what_is_no_yaml_is_told_with_its_place() -> None:
    with pytest.raises(yaml.YAMLError, match="line 3"):
        yamls.read("a: 1\nb: [\n")


def test_a_text_makes_no_objects() -> None:
    with pytest.raises(yaml.YAMLError, match="tag"):
        yamls.read("!!python/object/apply:os.getcwd []")


def test_parts_that_are_shared_are_written_twice_and_keys_keep_their_order() -> None:
    part = {"z": "ä", "a": "1"}
    text = yamls.write({"one": part, "two": part}, {"three": []})
    assert text == "one:\n  z: ä\n  a: '1'\ntwo:\n  z: ä\n  a: '1'\n---\nthree: []\n"
    assert yamls.read(text) == [{"one": part, "two": part}, {"three": []}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: ]", "line 2, column 4: "),
        (b"\xff\xfe\x00", ""),
        ("a: \x01", ""),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str | bytes, said: str) -> None:
    with pytest.raises((yaml.YAMLError, UnicodeDecodeError)) as caught:
        yamls.read(text)
    told = yamls.problem(caught.value)
    assert told.startswith(said)
    assert told
    assert "\n" not in told
