"""Parts as data: replace, diff, TOML and JSON, and errors that name the key."""

from __future__ import annotations

import json
import tomllib
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from paribus.errors import ConfigError
from paribus.part import Difference, Part, diff, dump, flatten, load, read_toml, replace, to_toml


class Square(Part):
    type: Literal["square"] = "square"
    side: float = Field(gt=0)


class Circle(Part):
    type: Literal["circle"] = "circle"
    radius: float
    centre: tuple[float, float] = (0.0, 0.0)


class Picture(Part):
    title: str
    shape: Annotated[Square | Circle, Field(discriminator="type")]
    frame: Square | None = None
    extra: tuple[Annotated[Square | Circle, Field(discriminator="type")], ...] = ()
    border: float | None = 0.5


PICTURE = Picture(title="t", shape=Circle(radius=2), frame=Square(side=3), extra=(Square(side=1), Circle(radius=1)))


def test_parts_are_frozen_compared_by_value_and_hashable():
    with pytest.raises(ValidationError):
        PICTURE.title = "u"
    assert Picture(**dict(PICTURE)) == PICTURE and len({PICTURE, Picture(**dict(PICTURE))}) == 1


def test_replace_validates_again_and_leaves_the_original():
    assert replace(PICTURE, title="u").title == "u" and PICTURE.title == "t"
    assert replace(PICTURE, **{"shape.radius": 5}).shape == Circle(radius=5)
    assert replace(PICTURE, frame=None).frame is None
    with pytest.raises(ConfigError, match="greater than 0"):
        replace(PICTURE, **{"frame.side": -1})
    with pytest.raises(ConfigError, match="unknown field 'titel' of Picture; did you mean 'title'"):
        replace(PICTURE, titel="u")
    with pytest.raises(ConfigError, match="unknown field 'raduis' of Circle; did you mean 'radius'"):
        replace(PICTURE, **{"shape.raduis": 5})
    with pytest.raises(ConfigError, match="it has no field 'x'"):
        replace(PICTURE, **{"title.x": 5})


@pytest.mark.parametrize("picture", [PICTURE, replace(PICTURE, frame=None, border=None, extra=())])
def test_toml_and_json_give_the_same_value_back(picture):
    assert load(Picture, tomllib.loads(to_toml(picture))) == picture
    assert load(Picture, json.loads(json.dumps(dump(picture)))) == picture


def test_none_is_written_none_and_only_read_so_where_nothing_is_allowed():
    assert 'frame = "none"' in to_toml(replace(PICTURE, frame=None))
    assert load(Picture, {"title": "none", "shape": {"type": "square", "side": 1}, "border": "none"}) == Picture(
        title="none", shape=Square(side=1), border=None
    )


def test_diff_lists_leaves_and_expands_an_empty_side():
    other = replace(PICTURE, frame=None, shape=Circle(radius=4), border=None)
    assert diff(PICTURE, other) == [
        Difference("shape.radius", 2.0, 4.0),
        Difference("frame.type", "square", None),
        Difference("frame.side", 3.0, None),
        Difference("border", 0.5, None),
    ]
    assert diff(PICTURE, PICTURE) == []
    paths = [d.path for d in diff(PICTURE, replace(PICTURE, shape=Square(side=2)))]
    assert set(paths) == {"shape.type", "shape.radius", "shape.centre", "shape.side"}


def test_flatten_names_the_items_of_a_list_by_their_type():
    assert flatten(dump(PICTURE))["extra.square.side"] == 1 and flatten(dump(PICTURE))["extra.circle.radius"] == 1
    assert flatten({"a": {"b": [1, 2]}, "c": {}}) == {"a.b": [1, 2], "c": {}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"titel": "t"}, "unknown key 'titel'; did you mean 'title'?"),
        ({"frame": {"sied": 1}}, "unknown key 'frame.sied'; did you mean 'side'?"),
        ({"shape": {"type": "circle", "raduis": 1}}, "unknown key 'shape.raduis'; did you mean 'radius'?"),
        ({"shape": {"type": "cirlce"}}, "shape: unknown type 'cirlce'; did you mean 'circle'?"),
        ({"shape": {"radius": 1}}, "shape: say which kind with `type = "),
        ({"shape": {"type": "square"}}, "missing key 'shape.side'"),
        ({"shape": {"type": "square", "side": "wide"}}, "shape.side: "),
        ({"shape": {"type": "square", "side": float("nan")}}, "shape.side: "),
        ({"extra": [{"type": "square", "side": 0}]}, "extra.0.side: "),
    ],
)
def test_errors_name_the_key_and_the_nearest_known(data, message):
    with pytest.raises(ConfigError) as caught:
        load(Picture, {"title": "t", "shape": {"type": "square", "side": 1}} | data, where="p.toml")
    assert f"p.toml: {message}" in str(caught.value)


def test_a_file_that_is_missing_or_not_toml_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_toml(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("a = [1,\nb = 2")
    with pytest.raises(ConfigError, match=r"bad\.toml: not valid TOML"):
        read_toml(tmp_path / "bad.toml")
