"""Files that are written: where, how whole, and with which permissions."""

import errno
import os
import socket
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest
from special_files import Reader, character_device, fifo, listening_socket

from lately.golden import from_spec, load, preset
from lately.golden.files import check_output, replace_file


def write(path, content=b"new", **options):
    with replace_file(path, **options) as file:
        file.write(content)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def usual(tmp_path):
    """Mode that a new file has."""
    path = tmp_path / "usual"
    path.touch()
    result = mode(path)
    path.unlink()
    return result


@pytest.fixture(autouse=True)
def umask_is_left_alone(monkeypatch):
    def changed(mask):
        raise AssertionError("the umask belongs to the whole process")

    monkeypatch.setattr(os, "umask", changed)


# What is there and is no regular file


def test_fifo_is_written_to(tmp_path):
    with fifo(tmp_path / "fifo") as reader:
        check_output(tmp_path / "fifo")
        write(tmp_path / "fifo", bytes(200_000))
        assert reader.content == bytes(200_000)
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


def test_device_is_written_to(tmp_path):
    with character_device(tmp_path) as path:
        before = os.stat(path)
        check_output(path)
        write(path, private=True)
        os.symlink(path, tmp_path / "link")
        write(tmp_path / "link")
        status = os.stat(path)
        assert (status.st_mode, status.st_rdev) == (before.st_mode, before.st_rdev)
        assert stat.S_ISCHR(status.st_mode)


def test_socket_is_written_to():
    # A short folder: the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "socket")
        with listening_socket(path) as reader:
            check_output(path)
            write(path, bytes(200_000))
            assert reader.content == bytes(200_000)
        assert os.listdir(folder) == ["socket"]
        with pytest.raises(OSError, match=f"{path}'$"):
            write(path)


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_pipe_of_a_process_is_written_to(folder):
    """As shells pass it for >(command)."""
    if not os.path.isdir(folder):
        pytest.skip(f"the system has no {folder}")
    source, sink = os.pipe()
    reader = Reader(lambda: os.fdopen(source, "rb"))
    check_output(f"{folder}/{sink}")
    write(f"{folder}/{sink}")
    os.close(sink)
    assert reader.content == b"new"


def test_descriptor_that_would_not_wait_is_written_whole():
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    reader = Reader(lambda: os.fdopen(source, "rb"))
    for kept in (False, True):
        write(f"/dev/fd/{sink}", bytes(1_000_000), kept=kept)
    os.close(sink)
    assert len(reader.content) == 2_000_000


def test_descriptor_of_a_socket_is_written_to():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        write(f"/dev/fd/{ours.fileno()}")
        assert theirs.recv(9) == b"new"


def test_descriptor_of_a_file_is_written_to_where_it_is(tmp_path):
    """Standard output that goes to a file is continued, not replaced."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"before ")
        file.flush()
        os.symlink(f"/dev/fd/{file.fileno()}", tmp_path / "link")
        write(tmp_path / "link")
        file.write(b" after")
    assert path.read_bytes() == b"before new after"


def test_descriptor_that_is_closed():
    source, sink = os.pipe()
    os.close(source)
    os.close(sink)
    for use in (check_output, write):
        with pytest.raises(OSError, match=f"/dev/fd/{sink}'$") as raised:
            use(f"/dev/fd/{sink}")
        assert raised.value.errno == errno.EBADF


@pytest.mark.parametrize("kind", ["device", "fifo"])
def test_state_that_is_saved_to_no_regular_file(tmp_path, kind):
    """An npz file is written to what has no places to go back to."""
    model = from_spec(preset("tiny"))
    model.insert(np.arange(9, dtype=np.uint64))
    if kind == "device":
        with character_device(tmp_path) as path:
            model.save(path, secrets=True)
        return
    with fifo(tmp_path / "fifo") as reader:
        model.save(tmp_path / "fifo", secrets=True)
        (tmp_path / "state").write_bytes(reader.content)
    assert load(tmp_path / "state") == model


# Links


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("relative", [True, False])
def test_links_are_followed(tmp_path, exists, relative):
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    target = tmp_path / "there" / "file"
    if exists:
        target.write_bytes(b"old")
    first, second = tmp_path / "here" / "first", tmp_path / "here" / "second"
    os.symlink("../there/file" if relative else target, first)
    os.symlink("first" if relative else first, second)
    check_output(second)
    write(second)
    assert first.is_symlink()
    assert second.is_symlink()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path / "there") == ["file"]
    assert sorted(os.listdir(tmp_path / "here")) == ["first", "second"]


def test_links_that_lead_nowhere(tmp_path):
    os.symlink("loop", tmp_path / "loop")
    os.symlink("none/file", tmp_path / "lost")
    for name, number in (("loop", errno.ELOOP), ("lost", errno.ENOENT)):
        for use in (check_output, write):
            with pytest.raises(OSError, match=f"/{name}'$") as raised:
                use(tmp_path / name)
            assert raised.value.errno == number


# Permissions


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664, 0o755])
def test_existing_file_keeps_its_mode(tmp_path, kept):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(kept)
    (tmp_path / "secret").touch(0o600)
    write(path, source=tmp_path / "secret")
    assert (path.read_bytes(), mode(path)) == (b"new", kept)


def test_existing_file_keeps_its_owner(tmp_path):
    path = tmp_path / "file"
    path.touch()
    # Only root gives files to others; each process may choose among its groups.
    os.chown(path, *((12_345, 23_456) if os.geteuid() == 0 else (-1, os.getgroups()[-1])))
    before = os.stat(path)
    write(path)
    after = os.stat(path)
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


@pytest.mark.parametrize("allowed", [True, False])
def test_owner_that_cannot_be_kept(tmp_path, monkeypatch, allowed):
    """A group that loses its file to another one does not open it to that one."""
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o664)
    refused = []

    def refuse(file, owner, group):
        if owner != -1 or not allowed:
            refused.append((owner, group))
            raise PermissionError(errno.EPERM, "not the owner")

    before = os.stat(path)
    stranger = os.stat_result([*before[:4], 12_345, 23_456, *before[6:]])
    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(os, "fstat", lambda file: stranger)
    write(path)
    owners = [(before.st_uid, before.st_gid), (-1, before.st_gid)]
    assert refused == owners[: 1 if allowed else 2]
    assert (path.read_bytes(), mode(path)) == (b"new", 0o664 if allowed else 0o644)


def test_private_from_its_creation_on(tmp_path):
    for name, before in (("new", None), ("old", 0o644)):
        path = tmp_path / name / "state"
        path.parent.mkdir()
        if before is not None:
            path.touch()
            path.chmod(before)
        with replace_file(path, private=True) as file:
            (temporary,) = {*path.parent.iterdir()} - {path}
            assert mode(temporary) == 0o600
            file.write(b"secret")
        assert mode(path) == 0o600


@pytest.mark.parametrize("of_input", [0o600, 0o640, 0o604, 0o666, 0o777, 0o400])
def test_new_file_is_no_more_readable_than_its_input(tmp_path, usual, of_input):
    source = tmp_path / "input"
    source.touch()
    source.chmod(of_input)
    with source.open("rb") as opened:
        for name, given in (("path", source), ("descriptor", opened.fileno())):
            with replace_file(tmp_path / name, source=given):
                (temporary,) = tmp_path.glob(".*")
                assert mode(temporary) == usual & (of_input | 0o600)
            assert mode(tmp_path / name) == usual & (of_input | 0o600)


def test_group_of_the_input_is_another(tmp_path, monkeypatch, usual):
    """The members of our group had no more than all others."""
    source = tmp_path / "input"
    source.touch()
    source.chmod(0o640)
    monkeypatch.setattr(os, "getegid", lambda: os.stat(source).st_gid + 1)
    tmp_path.chmod(0o755)
    write(tmp_path / "one", source=source)
    assert mode(tmp_path / "one") == 0o600
    # A folder may give its own group to what is made in it.
    tmp_path.chmod(0o2755)
    write(tmp_path / "other", source=source)
    assert mode(tmp_path / "other") == usual & 0o640


def test_input_that_is_no_file_restricts_nothing(tmp_path, usual):
    """The mode of a pipe, 0600 for most, says nothing about its content."""
    source, sink = os.pipe()
    write(tmp_path / "piped", source=source)
    os.close(source)
    os.close(sink)
    write(tmp_path / "plain")
    assert mode(tmp_path / "piped") == mode(tmp_path / "plain") == usual


# Whole or not at all


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_left_of_what_fails(tmp_path, exists):
    path = tmp_path / "file"
    if exists:
        path.write_bytes(b"old")

    def interrupted():
        with replace_file(path) as file:
            file.write(b"half")
            file.flush()
            assert len(os.listdir(tmp_path)) == 1 + exists
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == ["file"] * exists
    assert not exists or path.read_bytes() == b"old"


def test_content_is_on_disk_before_the_name(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, os.replace

    def note_sync(file):
        status = os.fstat(file)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")
        sync(file)

    def note_replace(*paths):
        done.append("name")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    write(tmp_path / "file")
    assert done == ["3 bytes", "name", "folder"]


def test_folder_is_refused_before_the_work(tmp_path):
    (tmp_path / "folder").mkdir()
    os.symlink("folder", tmp_path / "link")
    for name in ("folder", "link", "folder/", "none/", "."):
        path = f"{tmp_path}/{name}"
        for use in (check_output, lambda path: replace_file(path).__enter__()):
            with pytest.raises(IsADirectoryError) as raised:
                use(path)
            assert raised.value.filename == path


def test_folder_that_comes_meanwhile(tmp_path):
    """The message has the name that the user knows."""
    path = tmp_path / "file"
    with pytest.raises(OSError, match=f"{path}'$"), replace_file(path):
        path.mkdir()
    assert os.listdir(tmp_path) == ["file"]


def test_long_name(tmp_path):
    path = tmp_path / ("\N{EURO SIGN}" * 85)
    write(path)
    assert path.read_bytes() == b"new"
    with pytest.raises(OSError, match="name too long"):
        write(tmp_path / ("n" * 256))
    assert len(os.listdir(tmp_path)) == 1


def test_folder_that_is_closed(tmp_path, monkeypatch):
    """The system's answer is taken, as root may write everywhere."""
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(PermissionError, match=f"{tmp_path}/file'$"):
        check_output(tmp_path / "file")


def test_names_of_one_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.symlink("file", tmp_path / "link")
    os.symlink("new", tmp_path / "dangling")
    os.link(tmp_path / "file", tmp_path / "hard")
    os.symlink(".", tmp_path / "here")
    groups = [
        ["file", "folder/../file", "link", "here/file", "hard"],
        ["new", "./new", "dangling", "folder/../new", "here/new"],
        ["other"],
    ]
    results = [{check_output(f"{tmp_path}/{name}") for name in group} for group in groups]
    assert [len(identities) for identities in results] == [1, 1, 1]
    assert len(set.union(*results)) == 3
