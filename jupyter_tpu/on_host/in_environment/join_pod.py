"""Joins the other hosts in `jax.distributed`, and says which hosts there are."""

import json
import sys


def main():
    index, hosts, coordinator, seconds = json.loads(sys.argv[1])
    import jax

    jax.distributed.initialize(
        coordinator,
        hosts,
        index,
        initialization_timeout=seconds,
        coordinator_bind_address=None if index else coordinator,
    )
    import numpy
    from jax.experimental.multihost_utils import process_allgather

    seen = process_allgather(numpy.int32(index)).tolist()
    print("joined " + json.dumps({"hosts": seen, "devices": jax.device_count()}), flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
