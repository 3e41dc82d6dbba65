"""What each new environment gets, whatever else is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...environment import HostSetup
from ...errors import InvalidInput
from ...files import read_text
from ..core.checks import check_environment
from ..environments.environment import add_request
from ..models import ConnectTPU
from ..models.core import validated


class EnvironmentDefaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `ConnectTPU` and `HostSetup`; *setup_script* is a file of this computer, "" for none."""

    python: str | None = None
    packages: list[str] = []
    apt: list[str] = []
    timezone: str = ""
    oh_my_zsh: bool = False
    setup_script: str = ""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> EnvironmentDefaults:
        """Raises INVALID for other keys and types."""
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The defaults of environments are wrong: {error}.") from None

    def check(self) -> None:
        """Raises INVALID for what no environment can have, or if the script can't be read."""
        self.added_to(ConnectTPU())

    def added_to(self, request: ConnectTPU) -> ConnectTPU:
        """The request for a new environment with these. One with a lock keeps its versions, and a
        Python that is on the hosts is used as it is.

        Raises INVALID, also where the script can't be read.
        """
        if request.python_path is not None or self == EnvironmentDefaults():
            return request
        plain = (
            ConnectTPU() if request.lock else ConnectTPU(python=self.python, packages=self.packages)
        )
        setup = HostSetup(
            apt=self.apt,
            timezone=self.timezone,
            oh_my_zsh=self.oh_my_zsh,
            script=self._script() if self.setup_script else "",
        )
        added = validated(add_request(msgspec.structs.replace(plain, setup=setup), request))
        check_environment(added)
        return added

    def _script(self) -> str:
        path = Path(self.setup_script).expanduser()
        try:
            return read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise InvalidInput(
                f"The setup script {path} can't be read: {why}.",
                "Correct setup_script in c.JupyterTPU.environment_defaults.",
            ) from None
