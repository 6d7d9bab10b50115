"""The password of a catalog reaches Spark only by a file of its user."""

from spark.session.configuration import password_file
from tidemark.settings.home import Home


class Catalog:
    def __init__(self, password):
        self.password = password


def test_the_file_is_readable_by_its_user_only(tmp_path):
    home = Home.of(tmp_path)
    for line in ("h:5432:db:me:old", "h:5432:db:me:new"):
        variables = password_file(home, Catalog(line))
    (path,) = tmp_path.rglob("pgpass")
    assert variables == {"PGPASSFILE": str(path)}
    assert path.read_text() == "h:5432:db:me:new\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_password_nothing_is_written(tmp_path):
    assert password_file(Home.of(tmp_path), Catalog(None)) == {}
    assert not list(tmp_path.rglob("pgpass"))
