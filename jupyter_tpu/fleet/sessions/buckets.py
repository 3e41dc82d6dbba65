"""The buckets in which sessions and home folders can be kept: those of the TPU's region first."""

from __future__ import annotations

from ...cloud.buckets import StorageBucket, list_buckets
from ...cloud.google_apis import GoogleAPIs
from ...errors import Reason, TPUError
from ..core.core import Core
from ..models import Bucket, BucketList, Problem


class OfferedBuckets:
    def __init__(self, core: Core) -> None:
        self._cloud = core.cloud

    async def near(self, zone: str) -> BucketList:
        """Those of the project; *zone*: of the TPU, "-" for none. Does not fail."""
        region = "" if zone == "-" else zone.rpartition("-")[0]
        try:
            project = self._cloud.project
            found = await list_buckets(GoogleAPIs(self._cloud.target, project), project)
        except TPUError as error:
            if error.reason is Reason.PERMISSION:
                error = TPUError(
                    "You may not list the buckets of the project, so none are offered here.",
                    Reason.PERMISSION,
                    "Type the address of a bucket, such as gs://my-bucket/sessions.",
                )
            return BucketList(region=region, buckets=[], problem=Problem.of(error))
        buckets = [_bucket(bucket, region) for bucket in found]
        return BucketList(
            region=region,
            buckets=sorted(buckets, key=lambda bucket: (not bucket.near, bucket.name)),
        )


def _bucket(bucket: StorageBucket, region: str) -> Bucket:
    near = not region or region in bucket.regions
    return Bucket(
        name=bucket.name,
        location=bucket.location,
        near=near,
        warning=""
        if near
        else f"The bucket is in {bucket.location or 'an unknown region'}, and the TPU in {region}: "
        "Google may bill the network traffic between them.",
    )
