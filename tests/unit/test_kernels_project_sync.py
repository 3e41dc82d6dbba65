"""Which notebooks' projects are copied to hosts."""

import pytest

from jupyter_tpu.kernels.project import AUTO, NAMED, OFF, project_sync


def test_a_server_that_an_editor_started_copies_projects_of_folders_that_the_editor_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUPYTER_TPU_PROJECT_SYNC", NAMED)
    assert project_sync("") == OFF
    assert project_sync("", named=True) == AUTO
    assert project_sync("/data/project") == "/data/project"
    monkeypatch.setenv("JUPYTER_TPU_PROJECT_SYNC", OFF)
    assert project_sync("", named=True) == OFF
    monkeypatch.delenv("JUPYTER_TPU_PROJECT_SYNC")
    assert project_sync("") == AUTO
