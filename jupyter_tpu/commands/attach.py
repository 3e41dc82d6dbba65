"""``jupyter tpu attach`` and ``%tpu attach``: machines that are reached by SSH alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..terminal.field_options import options_of
from ..terminal.grammar import argument, command, examples, parameters, program
from ..terminal.printing import json_option, print_result
from ..terminal.questions import confirm
from ..terminal.session import open_session
from ..wording import count, phrase

if TYPE_CHECKING:
    from ..fleet.models import TPU, MachineHost


#: The argument `machines`, and the options `fields`.
machine_options = parameters(
    argument(
        "machines",
        nargs=-1,
        required=True,
        metavar="SSH_ALIAS...",
        help="What you give to `ssh`. For a TPU with several hosts: all of them, host 0 first.",
    ),
    options_of("AttachMachine", "name", "host_keys"),
)


def describe_attached(tpu: TPU) -> str:
    """What was attached, and the command that connects it."""
    chips = f"{count(tpu.chips, 'TPU chip')}: {tpu.type}" if tpu.chips else phrase("no TPU chips")
    what = f"{count(len(tpu.hosts), 'host')} · {chips}" if len(tpu.hosts) > 1 else chips
    sentences = [f"{tpu.name} is attached ({what})."]
    if not tpu.chips:
        sentences.append("JAX uses its CPU.")
    sentences.append(f"To use it in notebooks: {program()} connect {tpu.name}")
    return " ".join(sentences)


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
def attach(machines: Sequence[str], fields: dict[str, Any], as_json: bool) -> None:
    """Use machines that you reach by SSH as a TPU, without a cloud.

    Each is connected as `ssh SSH_ALIAS` connects, with your proxies. Its host key must be in your
    known hosts; if they do not have the machine, you see the fingerprint and are asked once. The
    key of jupyter-tpu is added to ~/.ssh/authorized_keys there. Then: `jupyter tpu connect NAME`.
    """
    from ..fleet.models import AttachMachine

    request = AttachMachine(ssh=[*machines], **fields)
    with open_session() as session:
        hosts = session.call(session.fleet.attached.check(request)).hosts
        if unknown := [
            host for host in hosts if not (host.known or host.host_key in request.host_keys)
        ]:
            confirm_keys(unknown)
            request.host_keys += [
                machine.host_key for machine in unknown
            ]  # what was shown is trusted
        tpu = session.call(session.fleet.attached.attach(request))
    print_result(tpu, describe_attached(tpu), as_json)


def confirm_keys(unknown: Sequence[MachineHost]) -> None:
    """Returns if the user says that these host keys are those of the machines."""
    lines = [
        f"The host key of {machine.ssh} ({machine.user}@{machine.address} port {machine.port}) is "
        f"not in your known hosts: {machine.host_key}."
        for machine in unknown
    ]
    one = len(unknown) == 1
    confirm(
        "\n".join([*lines, "Is this its fingerprint?" if one else "Are these their fingerprints?"]),
        f"Compare the {'fingerprint' if one else 'fingerprints'}, then add: "
        + " ".join(f"--host-key {machine.host_key}" for machine in unknown),
    )
