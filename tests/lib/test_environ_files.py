"""The data directory and the secret key: made for their owner alone, or refused with a remedy."""

import stat

import pytest

from cronjob.lib.environ import BadSetting, directory, secret_key, write_privately

KEY = "a key as long as a key should be"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "file"
    made.write_text("in the way")
    return made


def test_a_data_directory_is_made_for_its_owner_alone(tmp_path):
    made = directory(tmp_path / "some" / "where")
    assert made == tmp_path / "some" / "where"
    assert (made.is_dir(), mode(made)) == (True, 0o700)


def test_a_data_directory_that_is_there_is_left_as_it_is(tmp_path):
    (tmp_path / "kept").write_text("kept")
    tmp_path.chmod(0o750)
    assert directory(tmp_path) == tmp_path
    assert ((tmp_path / "kept").read_text(), mode(tmp_path)) == ("kept", 0o750)


@pytest.mark.parametrize("below", [".", "data", "a/b"])
def test_a_data_directory_that_cannot_be_made_is_named_with_a_remedy(file, below):
    path = file / below
    with pytest.raises(BadSetting) as caught:
        directory(path)
    told = str(caught.value)
    assert told.startswith(f"CRONJOB_DATA_DIR={path}: cannot be used (")
    assert told.endswith("Name a directory that this user may write to.")
    assert "\n" not in told


def test_what_is_written_privately_is_whole_and_only_its_owners(tmp_path):
    path = tmp_path / "secret_key"
    write_privately(path, KEY * 10_000)
    assert (path.read_text(), mode(path)) == (KEY * 10_000, 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_there_is_not_written_over_by_whoever_comes_second(tmp_path):
    path = tmp_path / "secret_key"
    write_privately(path, "first")
    write_privately(path, "second")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("first", [path])


def test_nothing_is_left_beside_it_whatever_happens(tmp_path):
    path = tmp_path / "secret_key"
    path.mkdir()
    write_privately(path, KEY)
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_is_told_with_a_remedy(file):
    with pytest.raises(BadSetting) as caught:
        write_privately(file / "secret_key", KEY)
    assert str(caught.value) == (
        f"cannot write {file}/secret_key (Not a directory). "
        "Make room, or name another directory by CRONJOB_DATA_DIR."
    )


def test_a_key_that_is_given_wins_over_every_file(tmp_path, file):
    (tmp_path / "secret_key").write_text("of the directory")
    assert secret_key(KEY, str(file), tmp_path, debug=True) == KEY


def test_a_key_is_read_from_the_file_that_is_named(tmp_path, file):
    file.write_text(f"  {KEY}\n")
    (tmp_path / "secret_key").write_text("of the directory")
    assert secret_key("", str(file), tmp_path, debug=True) == KEY


def test_a_key_is_read_from_the_data_directory(tmp_path):
    (tmp_path / "secret_key").write_text(f"{KEY}\n")
    assert secret_key("", "", tmp_path, debug=True) == KEY


@pytest.mark.parametrize("debug", [True, False])
def test_a_key_file_that_is_named_and_missing_is_refused(tmp_path, debug):
    missing = tmp_path / "missing"
    with pytest.raises(BadSetting, match=f"^CRONJOB_SECRET_KEY_FILE={missing}: .*no such file"):
        secret_key("", str(missing), tmp_path, debug=debug)


def test_without_any_key_there_is_none_but_for_debugging(tmp_path):
    assert secret_key("", "", tmp_path / "new", debug=False) == ""
    assert secret_key("", "", tmp_path / "new", debug=True) != ""


def test_a_key_file_that_cannot_be_read_is_named_with_a_remedy(tmp_path):
    with pytest.raises(BadSetting) as caught:
        secret_key("", str(tmp_path), tmp_path, debug=True)
    told = str(caught.value)
    assert told.startswith(f"the secret key in {tmp_path} cannot be read (")
    assert told.endswith("Let this user read it, or name another by CRONJOB_SECRET_KEY_FILE.")


def test_a_key_file_that_holds_no_text_is_refused_with_a_remedy(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(bytes(range(128, 178)))  # what `head -c 50 /dev/urandom` may leave
    with pytest.raises(BadSetting, match="CRONJOB_SECRET_KEY_FILE"):
        secret_key("", str(path), tmp_path, debug=False)
