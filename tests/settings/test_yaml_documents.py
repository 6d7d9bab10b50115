"""Settings files: valid entries stay, each mistake is one line with its place."""

import pytest
from pydantic import BaseModel, ConfigDict

from tidemark.settings.yaml_documents import Item, read_items


class Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    size: int = 1


def read(tmp_path, text: str | bytes, **options):
    """Names of the valid entries of a file, and its mistakes without the folder."""
    file = tmp_path / "things.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    items = list(read_items(file, "things", "a thing", Entry.model_validate, of=Entry, **options))
    names = [item.value.name for item in items if isinstance(item, Item)]
    mistakes = [item.removeprefix(f"{tmp_path}/") for item in items if isinstance(item, str)]
    return names, mistakes


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "things.yaml:1: empty: write `things:` and a list of things"),
        ("- a", "things.yaml:1: a mapping with `things:` is wanted here, not a list"),
        ("other: 1", "things.yaml:1: things: missing"),
        ("things: 5", "things.yaml:1: things: a list of things is wanted, not 5"),
        ("things: [", "things.yaml:1: not YAML: expected the node content, but found"),
        (b"things: \xff", "things.yaml:1: not UTF-8"),
    ],
)
def test_a_file_without_a_list_is_one_line(tmp_path, text, mistake):
    names, (line,) = read(tmp_path, text)
    assert names == []
    assert line.startswith(mistake)


def test_a_wrong_entry_spares_the_others(tmp_path):
    text = "things:\n- name: a\n- name: b\n  size: many\n- 7\n- name: c\n  colour: red\n- name: d\n"
    names, mistakes = read(tmp_path, text)
    assert names == ["a", "d"]
    assert [line.split(" ")[0] for line in mistakes] == [
        "things.yaml:4:",
        "things.yaml:5:",
        "things.yaml:7:",
    ]
    assert mistakes[0].endswith("things[1].size: should be a valid integer, unable to parse string "
                                "as an integer, not 'many'")  # fmt: skip
    assert mistakes[1].endswith("things[2]: a thing is a mapping, not 7")
    assert mistakes[2].endswith("things[3].colour: unknown field")


def test_unknown_and_repeated_keys_are_mistakes(tmp_path):
    names, mistakes = read(tmp_path, "thing: 1\nthings:\n- name: a\n  name: b\n")
    assert names == ["b"]
    assert mistakes == [
        "things.yaml:4: things[0].name: written twice",
        "things.yaml:1: thing: unknown field, only `things` is known here",
    ]


def test_only_a_required_file_is_missed(tmp_path):
    file = tmp_path / "none.yaml"
    one = Entry.model_validate
    assert list(read_items(file, "things", "a thing", one, of=Entry, required=False)) == []
    (line,) = read_items(file, "things", "a thing", one, of=Entry)
    assert line == f"{file}: cannot be read: No such file or directory"


def test_an_entry_knows_its_place(tmp_path):
    file = tmp_path / "things.yaml"
    file.write_text("things:\n- name: a\n\n- name: b\n  size: 3\n")
    _, second = read_items(file, "things", "a thing", Entry.model_validate, of=Entry)
    assert isinstance(second, Item)
    assert second.place("size") == f"{file}:5: things[1].size"
