"""Checks what can keep a TPU from being created or reached, before there is one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from importlib import metadata
from typing import Any

from msgspec import structs

from ...catalog import API, AcceleratorType
from ...cloud import Cloud, preflight, uses_os_login
from ...cloud.compute import ANYWHERE, IAP_RANGE, SSH, Networks, ProjectMetadata
from ...cloud.google_apis import GoogleAPIs
from ...environment import Finding, Report, healthy
from ...environment.diagnosis.findings import Check
from ...errors import Reason, TPUError
from ...links import logins
from ...retired import TPU_NODE_VARIABLES, is_tpu_node_address
from ...ssh.asyncssh_internals import lacks, missing_parts
from ...ssh.keys import USER_VARIABLE
from ..lifecycle.availability import Availability
from ..models import CheckSetup, CreateTPU, Diagnosis
from ..models.core import known_type, timestamp, validated
from ..models.setup import image_finding

#: Seconds before its end in which a key in the Google account is worth a warning.
_EXPIRES_SOON = 3 * 24 * 3600.0
_REPORT = Report()
#: What a project without one of them lacks.
_ONLY_IN: dict[API, str] = {
    "tpu": "TPUs up to v5e, and queued resources, need this API.",
    "compute": "TPU7x and newer need it.",
}
_QUOTAS = "https://console.cloud.google.com/iam-admin/quotas"


class Preflight:
    """key: makes sure that there is an SSH key, and returns what a TPU gets of it."""

    def __init__(
        self, cloud: Cloud, availability: Availability, key: Callable[[], dict[str, str]]
    ) -> None:
        self._cloud = cloud
        self._availability = availability
        self._key = key

    async def check(self, request: CheckSetup) -> Diagnosis:
        """Never fails for what it checks: that is a finding. Changes nothing in the cloud."""
        request = validated(request)
        findings = [
            await self._key_finding(),
            *tpu_node_settings(os.environ),
            *await asyncssh_findings(),
            *mcp_findings(_installed),
        ]
        project = self._project()
        if isinstance(project, Finding):
            findings.insert(0, project)
        else:
            answers = await self._control_planes(project)
            findings = [*answers.values(), *findings]
            usable = [api for api, finding in answers.items() if finding.state == "ok"]
            if usable:
                apis = GoogleAPIs(self._cloud.target, project)
                findings += await asyncio.gather(
                    *(self._permissions(apis, project, api) for api in usable),
                    self._firewall(apis, project, request.network or "default"),
                )
                findings += await self._os_login(apis, project)
                if request.type is not None:
                    findings += await self._of_type(apis, project, request, request.type)
        return Diagnosis(
            tpu="",
            zone=request.zone or "",
            emulated=self._cloud.emulated,
            healthy=healthy(findings),
            findings=findings,
        )

    def _project(self) -> str | Finding:
        try:
            return self._cloud.project
        except TPUError as error:
            return _REPORT.problem("project", error.message, error.hint)

    async def _key_finding(self) -> Finding:
        try:
            await asyncio.to_thread(self._key)
        except TPUError as error:
            return _REPORT.problem("key", error.message, error.hint)
        return _REPORT.ok("key", "Your SSH key for TPUs is ready.")

    async def _control_planes(self, project: str) -> dict[API, Finding]:
        """Whether each answers. One that does not is a problem if the other does not, either."""
        planes = self._cloud.apis
        findings = dict(
            zip(planes, await asyncio.gather(*(self._api(project, p) for p in planes)), strict=True)
        )
        if any(finding.state == "ok" for finding in findings.values()):
            for api, finding in findings.items():
                if finding.state == "problem":
                    findings[api] = structs.replace(
                        finding, state="warning", message=f"{finding.message} {_ONLY_IN[api]}"
                    )
        elif (
            len({finding.message for finding in findings.values()}) == 1
        ):  # there is no login, for example
            return {"tpu": findings["tpu"]}
        return findings

    async def _api(self, project: str, api: API) -> Finding:
        check: Check = "api" if api == "tpu" else "compute-api"
        try:
            zones = await self._cloud.of_api(api).locations()
        except TPUError as error:
            if error.reason is Reason.NO_CREDENTIALS:
                check = "login"
            return _REPORT.problem(check, error.message, error.hint)
        number = len(zones)
        text = f"Compute Engine answers for the project {project}: {number} zones with TPUs."
        if api == "tpu":
            text = f"The Cloud TPU API answers for the project {project}: {number} zones."
        return _REPORT.ok(check, text)

    async def _permissions(self, apis: GoogleAPIs, project: str, api: API) -> Finding:
        of_compute = api == "compute"
        check: Check = "compute-permission" if of_compute else "permission"
        missing = await _answer_or_finding(
            check,
            "Whether your account may create TPUs with Compute Engine is not known."
            if of_compute
            else "Whether your account may create TPUs is not known.",
            preflight.missing_permissions(apis, project, api),
        )
        if isinstance(missing, Finding):
            return missing
        if missing:
            role = "roles/compute.instanceAdmin.v1" if of_compute else "roles/tpu.admin"
            report = _REPORT.warning if of_compute else _REPORT.problem
            needed = " TPU7x and newer need them." if of_compute else ""
            return report(
                check,
                f"Your account lacks permissions in {project}: {', '.join(missing)}.{needed}",
                "Ask the project's owner: gcloud projects add-iam-policy-binding "
                f"{project} --member user:YOUR_ACCOUNT --role {role}",
            )
        return _REPORT.ok(
            check,
            "Your account may create, connect and delete TPUs with Compute Engine."
            if of_compute
            else "Your account may create, connect and delete TPUs.",
        )

    async def _os_login(self, apis: GoogleAPIs, project: str) -> list[Finding]:
        """Whether the project uses OS Login, and no username for that is set."""
        if os.environ.get(USER_VARIABLE):
            return []
        try:
            metadata = await ProjectMetadata(apis, project).read()
        except TPUError:
            return []  # Compute Engine can't be asked: the check of the firewall says so
        if not uses_os_login(metadata):
            return []
        login, add = logins.stored(project), "jupyter tpu ssh-key add"
        uses = f"The project {project} uses OS Login"
        if login is None:
            return [
                _REPORT.warning(
                    "os-login",
                    f"{uses}, so hosts don't accept the key that jupyter-tpu gives to a TPU.",
                    f"Add the key to your Google account: {add}. Or create TPUs with --metadata "
                    "enable-oslogin=FALSE.",
                )
            ]
        end = timestamp("seconds", login.expires)
        if login.expires - time.time() < _EXPIRES_SOON:
            return [
                _REPORT.warning(
                    "os-login",
                    f"{uses}. The SSH key in your Google account is valid until {end}.",
                    f"Add it again: {add}",
                )
            ]
        return [_REPORT.ok("os-login", f"{uses}. You log in as {login.user}, until {end}.")]

    async def _firewall(self, apis: GoogleAPIs, project: str, network: str) -> Finding:
        rules = await _answer_or_finding(
            "firewall",
            f"The firewall rules of the network {network} are not known.",
            Networks(apis, project).rules(network),
        )
        if isinstance(rules, Finding):
            return rules
        rules = [rule for rule in rules if rule.allows(SSH) and not rule.of_accounts]
        setup = f"jupyter tpu network setup {network} --source ADDRESS"
        if not rules:
            return _REPORT.problem(
                "firewall",
                f"No firewall rule of the network {network} allows SSH (TCP port 22).",
                f"Allow it from your address: {setup}",
            )
        for_all = [rule for rule in rules if not rule.tags and ANYWHERE in rule.sources]
        if for_all:
            return _REPORT.ok("firewall", f"The firewall rule {for_all[0].name} allows SSH.")
        outside = [rule for rule in rules if not rule.internal]
        if not outside:
            return _REPORT.warning(
                "firewall",
                f"The firewall rules of the network {network} allow SSH only from internal "
                f"addresses ({rules[0].name}).",
                f"Outside of that network, let your address in: {setup}",
            )
        some = outside[0]
        sources, tags = ", ".join(some.sources), ", ".join(some.tags)
        text = f"The firewall rule {some.name} allows SSH only from {sources}."
        if tags:
            text = (
                f"The firewall rule {some.name} allows SSH only from {sources} to instances with "
                f"the tag {tags}."
                if sources
                else f"The firewall rule {some.name} allows SSH only to instances with the tag "
                f"{tags}."
            )
        return _REPORT.warning(
            "firewall",
            text,
            f"If your address is not among these, let it in: {setup}"
            if IAP_RANGE not in some.sources
            else "That is Identity-Aware Proxy, through which `jupyter tpu connect` can go.",
        )

    async def _of_type(
        self, apis: GoogleAPIs, project: str, request: CheckSetup, type: str
    ) -> list[Finding]:
        create_tpu = CreateTPU(
            name="t", type=type, zone=request.zone, version=request.version, tier=request.tier
        )
        try:
            create_tpu = await self._availability.resolve_defaults(create_tpu)
        except TPUError as error:
            return [_REPORT.problem("type", error.message, error.hint)]
        assert create_tpu.zone is not None
        findings = [_REPORT.ok("type", f"{create_tpu.zone} offers {type}.")]
        accelerator = known_type(type)
        if accelerator is not None and create_tpu.version is not None:
            fitting = accelerator.version_of(create_tpu.api or "tpu")
            use = f"Use {fitting}, or leave out the version."
            findings.append(image_finding(accelerator, create_tpu.version, use))
            can = [
                api
                for api in self._cloud.apis
                if request.version is None or api == create_tpu.api
                if api == create_tpu.api or api in accelerator.apis(create_tpu.zone)
            ]
            quotas = await asyncio.gather(
                *(self._quota(apis, project, accelerator, create_tpu, api) for api in can)
            )
            if any(quota.state == "ok" for quota in quotas):  # the other one can make it
                quotas = [
                    structs.replace(quota, state="warning") if quota.state == "problem" else quota
                    for quota in quotas
                ]
            findings += quotas
        return findings

    async def _quota(
        self,
        apis: GoogleAPIs,
        project: str,
        accelerator: AcceleratorType,
        request: CreateTPU,
        api: API,
    ) -> Finding:
        zone, hint = str(request.zone), f"Look at the quotas: {_QUOTAS}"
        of_compute = api == "compute"
        check: Check = "compute-quota" if of_compute else "quota"
        finding = await _answer_or_finding(
            check,
            "Compute Engine's quota is not known." if of_compute else "The quota is not known.",
            preflight.quotas(
                apis,
                project,
                generation=accelerator.generation,
                tier=request.tier,
                zone=zone,
                api=api,
            ),
        )
        if isinstance(finding, Finding):
            return finding
        what = f"{accelerator.generation} ({request.tier}) in {zone}"
        if not finding:
            return _REPORT.unknown(
                check,
                f"No {'quota of Compute Engine' if of_compute else 'quota'} for {what} was found.",
                hint,
            )
        limit = preflight.allowed(finding, request.tier)
        if limit is None or limit < 0:
            return _REPORT.ok(
                check,
                f"{'At Compute Engine there' if of_compute else 'There'} is no limit for {what}.",
            )
        deciding = next(quota for quota in finding if quota.limit == limit)
        text = f"The quota {deciding.name} for {what} is {limit}."
        if of_compute:
            text = f"Compute Engine's quota {deciding.name} for {what} is {limit}."
        if limit == 0:
            ask = f"Choose another zone or tier, or ask for quota: {_QUOTAS}"
            return _REPORT.problem(check, text, ask)
        return _REPORT.ok(check, text)


async def asyncssh_findings() -> list[Finding]:
    """What is slower, or missing, with the asyncssh that is installed."""
    try:
        without = await missing_parts()
    except Exception as error:  # whatever another asyncssh raises
        message = f"asyncssh can't connect to itself: {type(error).__name__}: {error}"
        return [_REPORT.problem("asyncssh", message, "Install asyncssh again.")]
    hint = "Connections work. Look for a newer version of jupyter-tpu."
    return [
        _REPORT.warning("asyncssh", f"{lacks(names)} {consequence}", hint)
        for consequence, names in without.items()
    ]


def _installed(package: str) -> tuple[int, ...]:
    """The first two numbers of its version; () if it is not installed."""
    try:
        words = metadata.version(package).split(".")[:2]
    except metadata.PackageNotFoundError:
        return ()
    return tuple(int(word) for word in words if word.isdecimal())


def mcp_findings(installed: Callable[[str], tuple[int, ...]]) -> Iterator[Finding]:
    """Whether the package mcp takes Jupyter AI's tools away, as no installer says.

    jupyter-server-mcp before 0.4, which Jupyter AI 3.2 wants, needs version 1 of it.
    """
    server = installed("jupyter-server-mcp")
    if server and server < (0, 4) and installed("mcp") >= (2,):
        yield _REPORT.warning(
            "mcp",
            "Jupyter AI has no tools here: jupyter-server-mcp before 0.4 does not work with "
            "version 2 of the package mcp, which jupyter-tpu[mcp] brings.",
            "Run `pip install 'mcp<2'`. For `jupyter tpu mcp` make an environment of its own: "
            "`uvx --from 'jupyter-tpu[mcp]' jupyter-tpu mcp`.",
        )


async def _answer_or_finding(check: Check, unknown: str, question: Coroutine[Any, Any, Any]) -> Any:
    """The answer, or the finding that there is none."""
    try:
        return await question
    except TPUError as error:
        return _REPORT.unknown(check, f"{unknown} {error.message}", error.hint)


def tpu_node_settings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What is left of settings for TPU Nodes, in which old notebooks look for a TPU."""
    for name in TPU_NODE_VARIABLES:
        if is_tpu_node_address(environ.get(name, "").rpartition(";")[2]):
            yield _REPORT.warning(
                "variables",
                f"{name} has the address of a TPU Node, an architecture that Google has retired.",
                f"Unset {name}. On a TPU VM, JAX finds the chips automatically.",
            )
