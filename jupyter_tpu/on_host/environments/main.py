"""The calls about environments."""

from ..calls.processes import serve
from ..chips import holders as chip_holders
from .doctor import examine, listen, reach
from .existing_pythons import describe_python, found_pythons, install_ipykernel
from .host_setup import apply_setup
from .packages import change_packages, list_packages, lock_packages, sync_packages
from .pod import join_pod
from .probe import probe
from .resolution import resolve
from .uv import get_uv
from .virtualenv import create_venv, install_packages, remove, try_imports, verify, write_marker

CALLS: dict = {
    **chip_holders.CALLS,  # root is asked by the same program
    "probe": probe,
    "get_uv": get_uv,
    "create_venv": create_venv,
    "install_packages": install_packages,
    "list_packages": list_packages,
    "change_packages": change_packages,
    "lock_packages": lock_packages,
    "resolve": resolve,
    "sync_packages": sync_packages,
    "apply_setup": apply_setup,
    "verify": verify,
    "try_imports": try_imports,
    "join_pod": join_pod,
    "examine": examine,
    "listen": listen,
    "reach": reach,
    "write_marker": write_marker,
    "remove": remove,
    "found_pythons": found_pythons,
    "describe_python": describe_python,
    "install_ipykernel": install_ipykernel,
}


def main():
    serve(CALLS)
