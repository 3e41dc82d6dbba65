"""What crosses the border of the fleet: REST bodies, CLI ``--json``, events, SQLite rows.

Each is defined here once; the OpenAPI document and the frontend's TypeScript types are made from
these classes. Times are RFC 3339 in UTC, sizes in bytes unless a name says otherwise.

All public names of the files here can be imported from this package.
"""

# ruff: noqa: F403

from ...cloud.models import NodeOptions
from ...environment import (
    EnvironmentName,
    Finding,
    FoundPython,
    FoundPythons,
    HostSetup,
    InstalledPackage,
)
from .budgets import *
from .changes import *
from .chips import *
from .consequences import *
from .core import *
from .environments import *
from .files import *
from .forwarding import *
from .guard import *
from .homes import *
from .hunts import *
from .job_where import *
from .jobs import *
from .money import *
from .serving import *
from .sessions import *
from .setup import *
from .tpus import *
