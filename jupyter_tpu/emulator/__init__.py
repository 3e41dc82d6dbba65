"""Cloud TPU on this machine: the API from one model, hosts as real processes behind real SSH.

`serve` runs one; clients find it by its state file, `EmulatorState`.
"""

from .service import environment_lines, serve
from .state_folder import EmulatorState, default_state_dir, state_file
