"""The line of a value in YAML, however it is written."""

import pytest

from tidemark.settings.yaml_documents import DocumentError, parse

TEXT = """\
rules:
- name: a
  match:
    topic: orders
- {name: b,
   threshold: 5}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("rules",), 1),
        (("rules", 0, "name"), 2),
        (("rules", 0, "match", "topic"), 4),
        (("rules", 1, "threshold"), 6),
        (("rules", 0, "match", "missing"), 3),
        (("rules", 7, "name"), 1),
    ],
)
def test_a_value_has_the_line_of_its_key(path, line):
    assert parse(TEXT).line(path) == line


def test_a_key_written_twice_is_found():
    document = parse("a: 1\nb:\n- c: 1\n  c: 2\na: 2\n")
    assert set(document.repeated) == {(("a",), 5), (("b", 0, "c"), 4)}


def test_a_merged_key_may_be_overridden():
    document = parse("base: &base {a: 1}\nown: {<<: *base, a: 2}\n")
    assert document.repeated == ()
    assert document.value["own"] == {"a": 2}


def test_an_empty_text_is_no_value():
    document = parse("# nothing\n")
    assert (document.value, document.line(["a"])) == (None, 1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [", 2),
        ("a: 1\n---\nb: 1\n", 2),
        ("a: 1\nb: !!python/object:os.system {}\n", 2),
        ("a: 2026-13-45\n", 1),
        ("a: 1\n\x00", 2),
    ],
)
def test_what_is_no_document_names_its_line(text, line):
    with pytest.raises(DocumentError) as error:
        parse(text)
    assert error.value.line == line
    assert str(error.value).startswith("not YAML: ")


def test_deep_nesting_is_an_error():
    with pytest.raises(DocumentError, match="nested too deeply"):
        parse("[" * 600)


def test_an_equal_text_is_read_once_and_another_anew():
    text = "rules:\n- name: kept"
    assert parse(text) is parse("".join(text))
    assert parse(f"{text}-no-more").value == {"rules": [{"name": "kept-no-more"}]}
