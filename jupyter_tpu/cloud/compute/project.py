"""What a project says to all its hosts."""

from __future__ import annotations

from ..google_apis import GoogleAPIs


async def project_metadata(apis: GoogleAPIs, project: str) -> dict[str, str]:
    """The metadata that all hosts have, unless a TPU's own say otherwise: "enable-oslogin".

    Raises what `GoogleAPIs` raises.
    """
    answer = await apis.get("compute", f"/compute/v1/projects/{project}")
    items = answer.get("commonInstanceMetadata", {}).get("items", ())
    return {str(item["key"]): str(item.get("value", "")) for item in items}
