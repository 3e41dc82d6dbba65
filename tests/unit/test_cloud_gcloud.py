"""What gcloud knows, read from files and variables as gcloud writes them."""

import json
from pathlib import Path

import pytest
from refusals import raises

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.errors import Reason


@pytest.fixture
def gcloud(tmp_path: Path) -> Path:
    """A configuration folder with two configurations, of which "work" is active."""
    (tmp_path / "configurations").mkdir()
    (tmp_path / "active_config").write_text("work")
    (tmp_path / "configurations" / "config_work").write_text(
        "[core]\nproject = work-project\naccount = a%b@example.org\n\n"
        "[compute]\nzone = us-central2-b\n"
    )
    (tmp_path / "configurations" / "config_default").write_text("[core]\nproject = other\n")
    return tmp_path


def target(folder: Path, **variables: str) -> Target:
    return Target.from_environment(environ={"CLOUDSDK_CONFIG": str(folder), **variables})


def test_project_and_zone_are_the_active_configurations(gcloud):
    configured = target(gcloud)
    assert (configured.project, configured.zone) == ("work-project", "us-central2-b")


def test_a_variable_chooses_another_configuration(gcloud):
    configured = target(gcloud, CLOUDSDK_ACTIVE_CONFIG_NAME="default")
    assert (configured.project, configured.zone) == ("other", None)


def test_variables_win_over_files(gcloud):
    configured = target(gcloud, CLOUDSDK_CORE_PROJECT="mine", CLOUDSDK_COMPUTE_ZONE="us-east1-d")
    assert (configured.project, configured.zone) == ("mine", "us-east1-d")


def test_what_is_given_wins_over_everything(gcloud):
    environ = {"CLOUDSDK_CONFIG": str(gcloud), "CLOUDSDK_CORE_PROJECT": "mine"}
    configured = Target.from_environment(project="given", zone="z", environ=environ)
    assert (configured.project, configured.zone) == ("given", "z")


@pytest.mark.parametrize(
    "content",
    [
        {"type": "service_account", "project_id": "from-credentials"},
        {"type": "authorized_user", "quota_project_id": "from-credentials"},
    ],
)
def test_without_a_configuration_the_credentials_own_project_is_used(tmp_path, content):
    (tmp_path / "application_default_credentials.json").write_text(json.dumps(content))
    assert target(tmp_path).project == "from-credentials"
    elsewhere = tmp_path / "key.json"
    elsewhere.write_text(json.dumps({"project_id": "from-key"}))
    assert target(tmp_path, GOOGLE_APPLICATION_CREDENTIALS=str(elsewhere)).project == "from-key"


@pytest.mark.parametrize("text", ["", "[core\nproject = x", "project = x", "\x00\xff", "[core]\n"])
def test_broken_or_empty_files_are_as_good_as_none(tmp_path, text):
    (tmp_path / "configurations").mkdir()
    (tmp_path / "configurations" / "config_default").write_text(text)
    (tmp_path / "application_default_credentials.json").write_text("[1")
    assert target(tmp_path) == Target()


def test_no_project_is_reported_with_what_to_type(tmp_path):
    with raises(Reason.NO_PROJECT) as caught:
        _ = CloudTPU(target(tmp_path)).project
    assert "gcloud config set project" in caught.value.hint


async def test_no_credentials_are_reported_with_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    cloud = CloudTPU(Target(project="p"))
    with raises(Reason.NO_CREDENTIALS) as caught:
        await cloud.list_nodes()
    assert "gcloud auth application-default login" in caught.value.hint


async def test_a_credentials_file_that_is_not_there_is_named(tmp_path, monkeypatch):
    missing = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(missing))
    with raises(Reason.NO_CREDENTIALS) as caught:
        await CloudTPU(Target(project="p")).list_nodes()
    assert str(missing) in caught.value.message
    assert "unset it" in caught.value.hint


async def test_a_broken_credentials_file_is_named(tmp_path, monkeypatch):
    broken = tmp_path / "key.json"
    broken.write_text("{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(broken))
    with raises(Reason.NO_CREDENTIALS) as caught:
        await CloudTPU(Target(project="p")).list_nodes()
    assert "key.json" in caught.value.message


def test_the_emulator_variable_leads_to_the_emulator_and_not_to_gclouds_project(gcloud, tmp_path):
    state = tmp_path / "emulator.json"
    state.write_text(
        json.dumps({"id": "ab12", "grpc": "127.0.0.1:1", "token_file": "t", "zone": "us-east1-d"})
    )
    configured = target(gcloud, JUPYTER_TPU_EMULATOR=str(state))
    cloud = CloudTPU(configured)
    assert cloud.emulated
    assert (cloud.identity, cloud.project, cloud.zone) == (
        "emulator:ab12",
        "emulated",
        "us-east1-d",
    )
    assert CloudTPU(Target(project="p")).identity == "google"


@pytest.mark.parametrize("content", [None, "", "[]", '{"id": 3}'])
def test_an_emulators_file_that_is_missing_or_broken_is_reported_in_one_sentence(tmp_path, content):
    state = tmp_path / "state.json"
    if content is not None:
        state.write_text(content)
    with raises(Reason.UNAVAILABLE) as caught:
        _ = CloudTPU(Target(emulator=str(state))).project
    assert str(state) in caught.value.message
    assert "jupyter tpu emulator" in caught.value.hint
