"""``jupyter tpu attach``: machines that are reached by SSH alone."""

from __future__ import annotations

from collections.abc import Sequence

from ..commands.attached import describe_attached, machine_options
from ..commands.grammar import command, examples
from ..commands.session import open_session
from .console import confirm, json_option, print_json


@command(
    "attach",
    epilog=examples(
        "jupyter tpu attach my-box                  an entry of ~/.ssh/config",
        "jupyter tpu attach me@10.0.0.7 --name lab",
        "jupyter tpu attach box-0 box-1 --name pod  two hosts of one TPU",
    ),
)
@machine_options
@json_option
def attach(
    machines: Sequence[str], as_name: str | None, host_keys: Sequence[str], as_json: bool
) -> None:
    """Use machines that you reach by SSH as a TPU, without a cloud.

    Each is connected as `ssh SSH_ALIAS` connects, with your proxies. Its host key must be in your
    known hosts; if they do not have the machine, you see the fingerprint and are asked once. The
    key of jupyter-tpu is added to ~/.ssh/authorized_keys there. Then: `jupyter tpu connect NAME`.
    """
    from ..fleet.models import AttachMachine

    request = AttachMachine(ssh=[*machines], name=as_name, host_keys=[*host_keys])
    with open_session() as session:
        for host in session.call(session.fleet.attached.check(request)).hosts:
            if host.known or host.host_key in host_keys:
                continue
            confirm(
                f"The host key of {host.ssh} ({host.user}@{host.address} port {host.port}) is "
                f"not in your known hosts: {host.host_key}. Is this its fingerprint?",
                f"Compare the fingerprint, and add --host-key {host.host_key}.",
            )
            request.host_keys.append(host.host_key)  # what was shown is what is trusted
        tpu = session.call(session.fleet.attached.attach(request))
    if as_json:
        print_json(tpu)
    else:
        print(describe_attached(tpu, "jupyter tpu connect"))
