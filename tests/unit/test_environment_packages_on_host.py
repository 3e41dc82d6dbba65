"""What a change of packages that was cut off leaves in an environment."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_tpu.environment.on_host.packages import REQUESTED, distributions, drop_incomplete


def install(site: Path, name: str, *missing: str) -> Path:
    """A package, without some of its files; returns the folder of its metadata."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    files = {
        f"{name}.py": "",
        f"{info.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info.name}/RECORD", "gone.pyc"])
    for path, text in {**files, f"{info.name}/RECORD": record}.items():
        if os.path.basename(path) not in missing:
            (site / path).write_text(text)
    return info


def test_packages_that_were_installed_by_half_since_the_last_change_are_forgotten(
    tmp_path: Path,
) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    before = install(site, "changed_by_hand", "changed_by_hand.py")
    (tmp_path / REQUESTED).write_text("{}")
    os.utime(before, (0, 0))
    install(site, "whole")
    install(site, "no_metadata", "METADATA")
    install(site, "no_list", "RECORD")
    install(site, "no_module", "no_module.py")
    assert sorted(drop_incomplete(str(tmp_path))) == ["no-list", "no-metadata", "no-module"]
    assert set(distributions(str(tmp_path))) == {"changed-by-hand", "whole"}
    assert drop_incomplete(str(tmp_path)) == []
