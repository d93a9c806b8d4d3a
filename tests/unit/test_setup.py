"""packaging/dev.py: what it decides and what it says, with the facts of a machine handed in."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging"
SCRIPTS = ("dev", "machine", "torch_build")
PROJECT = 'dependencies = ["torch>=2.9,<2.14"]'
PYPI = ["2.15.0", "2.14.1", "2.13.0", "2.12.1", "2.8.0"]


@pytest.fixture(scope="module", autouse=True)
def scripts_by_path() -> Iterator[None]:
    """As when called by path: siblings import each other by their bare names."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))
    for name in SCRIPTS:
        sys.modules.pop(name, None)


@pytest.fixture
def dev() -> ModuleType:
    return importlib.import_module("dev")


@pytest.fixture
def machine() -> ModuleType:
    return importlib.import_module("machine")


@pytest.fixture
def torch_build() -> ModuleType:
    return importlib.import_module("torch_build")


@pytest.fixture
def refusal(machine: ModuleType) -> type[Exception]:
    kind: type[Exception] = machine.Refusal
    return kind


class TestMachine:
    @pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
    def test_supported_pythons(self, machine: ModuleType, version: tuple[int, int]) -> None:
        machine.check_python(version, "CPython")

    @pytest.mark.parametrize(
        ("version", "name"), [((3, 10), "CPython"), ((3, 14), "CPython"), ((3, 11), "PyPy")]
    )
    def test_other_pythons_are_refused(
        self, machine: ModuleType, refusal: type[Exception], version: tuple[int, int], name: str
    ) -> None:
        with pytest.raises(refusal, match=rf"3\.11 to 3\.13; this is {name} {version[0]}\.{version[1]}"):
            machine.check_python(version, name)

    def test_a_python_that_would_do_is_named(self, machine: ModuleType, refusal: type[Exception]) -> None:
        with pytest.raises(refusal, match=r"One is here: python3\.12 packaging/dev\.py"):
            machine.check_python((3, 9), "CPython", lambda name: name if name == "python3.12" else None)

    @pytest.mark.parametrize("script", SCRIPTS)
    def test_an_old_python_can_read_it(self, script: str) -> None:
        ast.parse((FOLDER / f"{script}.py").read_text(encoding="utf-8"), feature_version=(3, 7))

    def test_missing_venv_names_the_package(self, machine: ModuleType, refusal: type[Exception]) -> None:
        with pytest.raises(refusal, match=r"apt install python3\.\d+-venv"):
            machine.check_venv_module(lambda name: None if name == "ensurepip" else name)

    def test_no_display(self, machine: ModuleType, refusal: type[Exception]) -> None:
        with pytest.raises(refusal, match="xvfb-run"):
            machine.check_display("Linux", {"DISPLAY": ""})

    @pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"])
    def test_a_display(self, machine: ModuleType, name: str) -> None:
        machine.check_display("Linux", {name: "something"})

    def test_only_linux_has_displays_to_miss(self, machine: ModuleType) -> None:
        machine.check_display("Darwin", {})
        machine.check_display("Windows", {})

    def test_missing_libraries_are_named_with_their_packages(
        self, machine: ModuleType, refusal: type[Exception]
    ) -> None:
        missing = {"libEGL.so.1", "libxcb-cursor.so.0"}
        needed = machine.libraries_for_window({"DISPLAY": ":0"})
        with pytest.raises(refusal, match=r"apt install libegl1 libxcb-cursor0$") as caught:
            machine.check_libraries(needed, "Linux", lambda name: name not in missing)
        assert all(name in str(caught.value) for name in missing)

    def test_libraries_of_other_systems_are_not_checked(self, machine: ModuleType) -> None:
        machine.check_libraries(machine.QT_LIBRARIES, "Windows", lambda _: False)

    def test_offscreen_needs_no_window_system(self, machine: ModuleType) -> None:
        offscreen = {"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}
        assert machine.libraries_for_window(offscreen) == machine.QT_LIBRARIES


class TestTorch:
    @pytest.mark.parametrize(
        ("wish", "before", "nvidia", "build"),
        [
            (None, None, False, "cpu"),
            (None, None, True, "cuda"),
            (None, "cpu", True, "cpu"),
            ("cuda", "cpu", False, "cuda"),
            ("cpu", None, True, "cpu"),
        ],
    )
    def test_choice(
        self, torch_build: ModuleType, wish: str | None, before: str | None, nvidia: bool, build: str
    ) -> None:
        assert torch_build.choose_torch(wish, before, "Linux", lambda _: nvidia) == build

    def test_macos_has_one_build(self, torch_build: ModuleType) -> None:
        assert torch_build.choose_torch("cpu", None, "Darwin", lambda _: False) == "macos"
        assert "--torch" not in torch_build.torch_words("macos")

    def test_a_wrong_wish_is_refused(self, torch_build: ModuleType, refusal: type[Exception]) -> None:
        with pytest.raises(refusal, match="TANDEM_TORCH is 'rocm'"):
            torch_build.choose_torch("rocm", None, "Linux", lambda _: False)

    @pytest.mark.parametrize(("build", "other"), [("cpu", "cuda"), ("cuda", "cpu")])
    def test_words_name_size_and_the_other_build(
        self, torch_build: ModuleType, build: str, other: str
    ) -> None:
        words = torch_build.torch_words(build)
        assert words.startswith(f"torch: the {build.upper()} build")
        assert "to download" in words
        assert f"--torch {other}" in words
        assert f"TANDEM_TORCH={other}" in words

    @pytest.mark.parametrize(
        ("build", "system", "own", "theirs", "found"),
        [
            ("cpu", "Linux", [*PYPI, "2.13.0+cpu"], [], ("2.13.0+cpu", None)),
            ("cpu", "Linux", PYPI, ["2.14.0+cpu", "2.12.1+cpu", "2.9.0+cpu"], ("2.12.1+cpu", "/cpu")),
            ("cuda", "Linux", [*PYPI, "2.13.0+cpu"], [], ("2.13.0", None)),
            ("cpu", "Windows", PYPI, [], ("2.13.0", None)),
            ("cuda", "Windows", PYPI, ["2.13.0+cu130"], ("2.13.0+cu130", "/cu130")),
            ("macos", "Darwin", ["2.13.1rc1", *PYPI], [], ("2.13.0", None)),
        ],
    )
    def test_where_it_comes_from(
        self,
        torch_build: ModuleType,
        build: str,
        system: str,
        own: list[str],
        theirs: list[str],
        found: tuple[str, str | None],
    ) -> None:
        """pip's own configuration first, PyTorch's index for what it lacks, within pyproject.toml's bounds."""
        version, index = torch_build.find_torch(
            build, system, PROJECT, lambda index: theirs if index else own
        )
        assert (version, index and "/" + index.rpartition("/")[2]) == found

    def test_an_unreachable_index_says_what_to_do(
        self, torch_build: ModuleType, refusal: type[Exception]
    ) -> None:
        with pytest.raises(
            refusal, match=r"download\.pytorch\.org.*proxy[^$]*PIP_FIND_LINKS[^$]*--torch cuda"
        ):
            torch_build.find_torch("cpu", "Linux", PROJECT, lambda index: [] if index else PYPI)

    def test_bounds_are_read_from_the_project_itself(self, torch_build: ModuleType) -> None:
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        assert torch_build.newest_torch(["99.0", "2.9.0+cpu", "1.0"], "cpu", "Linux", project) == "2.9.0+cpu"


class TestStamp:
    def test_what_needs_doing(self, dev: ModuleType) -> None:
        done = dev.Stamp("/here", "3.11", "hash", "cpu")
        for found, works, need in [
            (done, True, "nothing"),
            (done._replace(starter=False), True, "nothing"),
            (done._replace(files="of another pyproject.toml"), True, "install"),
            (None, True, "install"),
            (None, False, "rebuild"),
            (done, False, "rebuild"),
            (done._replace(files=dev.UNFINISHED), True, "rebuild"),
            (done._replace(root="/elsewhere"), True, "rebuild"),
            (done._replace(python="3.12"), True, "rebuild"),
            (done._replace(torch="cuda"), True, "rebuild"),
        ]:
            assert dev.decide(found, done, lambda works=works: works) == need, found

    def test_a_changed_project_changes_the_hash(self, dev: ModuleType, tmp_path: Path) -> None:
        files = [tmp_path / "pyproject.toml", tmp_path / "starter.txt"]
        for file in files:
            file.write_text("same")
        before = dev.hash_of(files)
        assert dev.hash_of(files) == before
        files[0].write_text("changed")
        assert dev.hash_of(files) != before

    def test_a_stamp_comes_back(
        self, dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stamp = dev.Stamp("/here", "3.11", "hash", "cpu", starter=False)
        monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp.json")
        dev.write_stamp(stamp)
        assert dev.read_stamp(tmp_path / "stamp.json") == stamp

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"root": "/here"}'])
    def test_a_broken_stamp_is_none(self, dev: ModuleType, tmp_path: Path, text: str) -> None:
        (tmp_path / "stamp.json").write_text(text)
        assert dev.read_stamp(tmp_path / "stamp.json") is None
        assert dev.read_stamp(tmp_path / "missing.json") is None


class TestCommands:
    def test_arguments_go_on_to_pytest_and_tandem(self, dev: ModuleType) -> None:
        for rest in (["-k", "a and b", "tests/unit"], ["say", "Hello", "--seed", "1"], ["--tb=short"]):
            assert dev.parse(["test", *rest])[1] == rest

    def test_setup_takes_no_others(self, dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            dev.parse(["setup", "--fast"])
        assert "setup takes no --fast" in capsys.readouterr().err

    def test_a_refusal_is_a_message(
        self, dev: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dev.platform, "python_implementation", lambda: "PyPy")
        assert dev.main(["setup"]) == 1
        assert capsys.readouterr().err.startswith("Tandem needs CPython")

    def test_pytest_comes_last_and_an_earlier_failure_counts(
        self, dev: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        called = []

        def call(command: list[str], **_: object) -> int:
            called.append(" ".join(Path(part).stem for part in command))
            return int("mypy" in command[0])

        monkeypatch.setattr(dev.subprocess, "call", call)
        assert dev.test(["-x"]) == 1
        assert called[-1] == "python -m pytest -x"
        assert len(called) == 5
        said = capsys.readouterr().out
        assert said.index("Failed before pytest: mypy") < said.index("== pytest ==")

    def test_help(self) -> None:
        done = subprocess.run(
            [sys.executable, str(FOLDER / "dev.py"), "--help"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0
        assert all(word in done.stdout for word in ("run", "test", "setup", "--torch", "TANDEM_TORCH"))
