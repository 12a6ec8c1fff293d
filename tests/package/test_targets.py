"""What a package holds for particular machines: stored, found, checked; with a made-up family of targets."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import schemac
from schemac.codegen import targets
from schemac.codegen.targets.family import Family
from schemac.errors import PackageError, TargetError
from schemac_runtime import load
from schemac_runtime.program import Program
from schemac_runtime.targets import TargetArtifact
from tests.package.packages import compiled, manifest_of, rewritten
from tests.runtime.programs import SMALL, byte_vocabulary

SHARED = bytes(range(256)) * 3


def build(target: str, program: Program) -> TargetArtifact:
    size = program.vocab_size
    blobs = {"shared": SHARED, "own": f"{target} {size}".encode(), "empty": b""}
    return TargetArtifact(target, program.fingerprint, {"tokens": size, "nested": {"a": [1, None]}}, blobs)


def check(artifact: TargetArtifact) -> None:
    if artifact.manifest["tokens"] < 0:
        raise PackageError(f"{artifact.target}: a negative vocabulary")


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    family = Family("toy", ("one", "two"), build, check, lambda artifact: f"{len(artifact.blobs)} toys")
    monkeypatch.setitem(targets.FAMILIES, "toy", family)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = schemac.add_target(schemac.add_target(compiled(), "toy:one"), "toy:two")
    schemac.save(made, tmp_path / "grammar.pkg")
    return tmp_path / "grammar.pkg"


def test_every_program_has_what_was_built_for_it(path: Path) -> None:
    package = load(path)
    assert [(a.target, a.fingerprint) for a in package.targets] == [
        (target, v.fingerprint) for target in ("toy:one", "toy:two") for v in (byte_vocabulary(), SMALL)
    ]
    artifact = package.target("toy:two", SMALL.fingerprint)
    assert (artifact.family, artifact.blob("own"), artifact.blob("empty")) == ("toy", b"toy:two 110", b"")
    assert artifact.manifest == {"tokens": 110, "nested": {"a": [1, None]}}
    with pytest.raises(PackageError, match="there is no blob 'other'"):
        artifact.blob("other")
    with pytest.raises(PackageError, match=r"nothing for the target toy:three \(targets held: toy:one, toy:two\)"):
        package.target("toy:three", SMALL.fingerprint)


def test_equal_blobs_are_stored_once_and_by_their_digest(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("blobs/")]
        assert archive.testzip() is None
        assert [archive.read(name) for name in names].count(SHARED) == 1
    assert len(names) == 1 + 1 + 4  # shared, empty, one of its own for each
    assert [f"blobs/{digest}" for digest in load(path).manifest["blobs"]] == names


def test_the_same_bytes_again_and_after_loading(path: Path, tmp_path: Path) -> None:
    schemac.save(schemac.open_package(load(path)), tmp_path / "again.pkg")
    assert (tmp_path / "again.pkg").read_bytes() == path.read_bytes()
    again = schemac.add_target(schemac.open_package(load(path)), "toy:two")
    schemac.save(again, tmp_path / "again.pkg")
    assert (tmp_path / "again.pkg").read_bytes() == path.read_bytes()


def test_without_targets_the_file_is_as_before(tmp_path: Path) -> None:
    schemac.save(compiled(), tmp_path / "plain.pkg")
    assert {"targets", "blobs"} & set(load(tmp_path / "plain.pkg").manifest) == set()


def test_linking_again_drops_what_was_built_for_the_old_program(path: Path) -> None:
    again = schemac.link(schemac.open_package(load(path)), SMALL)
    assert {a.fingerprint for a in again.targets} == {byte_vocabulary().fingerprint}


def test_refusals() -> None:
    with pytest.raises(TargetError, match="there is no target 'what:ever'"):
        schemac.add_target(compiled(), "what:ever")
    with pytest.raises(TargetError, match="needs a linked program"):
        schemac.add_target(schemac.compile("a", kind="regex"), "toy:one")


def outcome_of(tmp_path: Path, data: bytes) -> str:
    (tmp_path / "damaged.pkg").write_bytes(data)
    try:
        schemac.open_package(load(tmp_path / "damaged.pkg"))
    except PackageError as error:
        return error.reason
    return ""


def test_hostile_manifests_are_refused(path: Path, tmp_path: Path) -> None:
    good = path.read_bytes()
    assert outcome_of(tmp_path, rewritten(good)) == ""
    digests = list(manifest_of(good)["blobs"])
    values = [None, -1, 1.5, 1 << 70, "x", "", [], [0, 0], {"a": 0}, True, "toy:", "../toy:one", "toy:one\n"]
    for value in values:
        for key in ("target", "fingerprint", "blobs", "manifest"):
            damaged = rewritten(good, edit=lambda m, k=key, v=value: m["targets"][0].__setitem__(k, v))
            assert outcome_of(tmp_path, damaged), (key, value)
        for key in ("targets", "blobs"):
            damaged = rewritten(good, edit=lambda m, k=key, v=value: m.__setitem__(k, v))
            assert outcome_of(tmp_path, damaged) or (key, value) == ("targets", []), (key, value)
        damaged = rewritten(good, edit=lambda m, v=value: m["targets"][0]["blobs"].__setitem__("own", v))
        assert "is not in the file" in outcome_of(tmp_path, damaged) or isinstance(value, (list, dict))
        for index in (0, 1):
            damaged = rewritten(good, edit=lambda m, i=index, v=value: m["blobs"][digests[0]].__setitem__(i, v))
            assert outcome_of(tmp_path, damaged), (index, value)
    swapped = rewritten(good, edit=lambda m: m["blobs"].update({digests[0]: m["blobs"][digests[1]]}))
    assert "not what its digest says" in outcome_of(tmp_path, swapped)
    twice = rewritten(good, edit=lambda m: m["targets"].__setitem__(1, m["targets"][0]))
    assert "twice" in outcome_of(tmp_path, twice)
    negative = rewritten(good, edit=lambda m: m["targets"][0]["manifest"].update(tokens=-1))
    assert "a negative vocabulary" in outcome_of(tmp_path, negative)


def test_a_changed_blob_is_refused(path: Path, tmp_path: Path) -> None:
    good = path.read_bytes()
    offset, _ = next(iter(manifest_of(good)["blobs"].values()))
    data = bytearray(good)
    data[offset] ^= 1
    assert "the digest does not match" in outcome_of(tmp_path, bytes(data))
    assert "not what its digest says" in outcome_of(tmp_path, rewritten(bytes(data)))


def test_a_family_that_is_not_known_here_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(targets.FAMILIES, "toy")
    opened = schemac.open_package(load(path))
    assert len(opened.targets) == 4
    assert "not known here" in targets.describe_target(opened.targets[0])


def test_the_command_line(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from schemac.cli import run

    out = str(tmp_path / "more.pkg")
    assert run(["link", str(path), "--target", "toy:one", "--target", "toy:three", "-o", out]) == 0
    assert run(["verify", out]) == 0
    assert capsys.readouterr().out.endswith("good, 2 linked programs, toy:two, toy:one, toy:three\n")
    assert run(["inspect", out]) == 0
    shown = capsys.readouterr().out
    assert "target       toy:two: 3 toys, 779 bytes\n" in shown
    assert run(["inspect", "--json", out]) == 0
    assert len(json.loads(capsys.readouterr().out)["targets"]) == 6
    assert run(["link", out, "--target", "toy"]) == 2
    assert "there is no target 'toy'" in capsys.readouterr().err
    source = tmp_path / "a.regex"
    source.write_text("a")
    assert run(["compile", str(source), "--target", "toy:one", "-o", out]) == 1
    assert "give --tokenizer too" in capsys.readouterr().err
