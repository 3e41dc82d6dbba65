"""``jupyter tpu attach``: machines that are reached by SSH alone."""

from __future__ import annotations

from ..commands.attached import describe_attached, machine_options
from ..commands.grammar import command, examples
from ..commands.session import open_session
from .console import confirm, json_option, print_json


@command(
    "attach",
    epilog=examples(
        "jupyter tpu attach my-box                  an entry of ~/.ssh/config",
        "jupyter tpu attach me@10.0.0.7 --name lab",
    ),
)
@machine_options
@json_option
def attach(machine: str, as_name: str | None, host_key: str, as_json: bool) -> None:
    """Use a machine that you reach by SSH as a TPU, without a cloud.

    It is connected as `ssh SSH_ALIAS` connects, with your proxies. Its host key must be in your
    known hosts; if they do not have the machine, you see the fingerprint and are asked once. The
    key of jupyter-tpu is added to ~/.ssh/authorized_keys there. Then: `jupyter tpu connect NAME`.
    """
    from msgspec import structs

    from ..fleet.models import AttachMachine

    request = AttachMachine(ssh=machine, name=as_name, host_key=host_key)
    with open_session() as session:
        check = session.call(session.fleet.attached.check(request))
        if not (check.known or host_key):
            confirm(
                f"The host key of {machine} ({check.user}@{check.address} port {check.port}) is "
                f"not in your known hosts: {check.host_key}. Is this its fingerprint?",
                f"Compare the fingerprint, and add --host-key {check.host_key}.",
            )
            # What was shown is what is trusted.
            request = structs.replace(request, host_key=check.host_key)
        tpu = session.call(session.fleet.attached.attach(request))
    if as_json:
        print_json(tpu)
    else:
        print(describe_attached(tpu, "jupyter tpu connect"))
