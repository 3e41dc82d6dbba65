"""Where arrays are, in words that hold on another TPU: axes of a mesh, not numbers of devices.

The rule for a TPU with another number of devices: a mesh keeps its axes, and the first axis whose
size can be changed takes the difference. A mesh of part of the devices keeps its size if it can. A
dimension of an array that its axes do not divide any more is not split.
"""

import math


def describe(jax, value):
    """A device, a mesh or a sharding as a persistent ID of a pickle; None for anything else."""
    if isinstance(value, jax.Device):
        return _device(jax, value)
    if isinstance(value, jax.sharding.Mesh):
        return ("mesh", *_mesh(jax, value))
    if isinstance(value, jax.sharding.NamedSharding):
        return "named", _mesh(jax, value.mesh), _spec(value.spec), value.memory_kind
    if isinstance(value, jax.sharding.SingleDeviceSharding):
        return "single", _device(jax, next(iter(value.device_set)))[1], value.memory_kind
    return None


def _device(jax, device):
    """A device's place among this host's of its kind; of another host's, among all."""
    if device.process_index == jax.process_index():
        return "device", jax.local_devices(backend=device.platform).index(device)
    return "device of all", jax.devices(device.platform).index(device)


def _mesh(jax, mesh):
    """Axes, sizes, types, order of the devices, and whether they are this host's only."""
    types = tuple(kind.name for kind in getattr(mesh, "axis_types", None) or ())
    devices = list(mesh.devices.flat)
    own = jax.process_count() > 1 and all(
        device.process_index == jax.process_index() for device in devices
    )
    among = jax.local_devices() if own else jax.devices()
    place = {device: index for index, device in enumerate(among)}
    flat = [place.get(device, -1) for device in devices]
    order = None if flat == list(range(len(place))) else tuple(flat)
    return tuple(mesh.axis_names), tuple(mesh.devices.shape), types, order, own


def _spec(spec):
    return tuple(tuple(part) if isinstance(part, (tuple, list)) else part for part in spec)


def resized(sizes, total, devices):
    """The sizes of a mesh's axes on a TPU with *devices* devices; *total*: how many there were.

    >>> resized((4, 2), 8, 16)
    (8, 2)
    >>> resized((1, 8), 8, 4)
    (1, 4)
    >>> resized((2, 1), 8, 4)
    (2, 1)
    """
    size = math.prod(sizes)
    if devices == total or (size < total and size <= devices):
        return tuple(sizes)
    goal = devices if size >= total else math.gcd(size, devices)
    for number, axis in enumerate(sizes):
        if (axis * goal) % size == 0:
            return (*sizes[:number], axis * goal // size, *sizes[number + 1 :])
    # No axis alone can: each takes what it can of the new number, from the last to the first.
    left, result = goal, []
    for axis in reversed(sizes):
        part = math.gcd(axis, left)
        result.append(part)
        left //= part
    return (result.pop() * left, *reversed(result))


class Devices:
    """This machine's devices, for what a session says of those where it was saved.

    total: how many there were; local: of these, on one host. notes: what is otherwise here, in
    sentences, each once.
    """

    def __init__(self, jax, total, local):
        self._jax = jax
        self._devices, self._own = jax.devices(), jax.local_devices()
        self._total, self._local = total, local
        self._meshes = {}
        self.notes = {}

    def rebuild(self, described):
        """The device, mesh or sharding that `describe` has described."""
        kind, *parts = described
        if kind in ("device", "device of all"):
            devices = self._own if kind == "device" else self._devices
            return devices[max(parts[0], 0) % len(devices)]
        if kind == "mesh":
            return self._mesh(*parts)
        if kind == "named":
            mesh, spec, memory = parts
            return self._jax.sharding.NamedSharding(
                self._mesh(*mesh), self._jax.sharding.PartitionSpec(*spec), **self._memory(memory)
            )
        if kind == "single":
            device = self._own[max(parts[0], 0) % len(self._own)]
            return self._jax.sharding.SingleDeviceSharding(device, **self._memory(parts[1]))
        raise ValueError("a placement that is not known: %r" % (kind,))

    def sharding(self, described, shape, name):
        """As `rebuild`, for an array of *shape*: only dimensions that can be are split."""
        if described is None:
            return None
        if described[0] != "named":
            return self.rebuild(described)
        _, mesh_parts, spec, memory = described
        mesh = self._mesh(*mesh_parts)
        sizes = dict(zip(mesh.axis_names, mesh.devices.shape))
        fitting = []
        for part, length in zip(spec, shape):
            axes = part if isinstance(part, tuple) else (part,) if isinstance(part, str) else ()
            if length % math.prod(sizes[axis] for axis in axes):
                self.notes[
                    "%s: its dimension of %d is not split over %s any more, which has %d devices."
                    % (name, length, ", ".join(axes), math.prod(sizes[axis] for axis in axes))
                ] = None
                part = None
            fitting.append(part)
        return self.rebuild(("named", mesh_parts, tuple(fitting), memory))

    def _mesh(self, names, sizes, types, order, own=False):
        key = names, sizes, types, order, own
        if key not in self._meshes:
            self._meshes[key] = self._new_mesh(*key)
        return self._meshes[key]

    def _new_mesh(self, names, sizes, types, order, own):
        import numpy

        sharding = self._jax.sharding
        among, total = (self._own, self._local) if own else (self._devices, self._total)
        now = resized(sizes, total, len(among))
        if now != sizes:
            self.notes[
                "The mesh %s has the sizes %s here." % (_axes(names, sizes), _axes(names, now))
            ] = None
        options = {}
        if types and hasattr(sharding, "AxisType"):
            options["axis_types"] = tuple(getattr(sharding.AxisType, kind) for kind in types)
        if order is not None and now == sizes and max(order) < len(among):
            devices = numpy.array([among[index] for index in order]).reshape(now)
            return sharding.Mesh(devices, names, **options)
        if math.prod(now) == len(among):
            return self._jax.make_mesh(now, names, devices=among, **options)
        devices = numpy.array(among[: math.prod(now)]).reshape(now)
        return sharding.Mesh(devices, names, **options)

    def _memory(self, kind):
        known = {memory.kind for memory in self._own[0].addressable_memories()}
        if kind is None or kind in known:
            return {"memory_kind": kind}
        self.notes["The memory %s does not exist here: arrays of it are on the devices." % kind] = (
            None
        )
        return {}


def _axes(names, sizes):
    return ", ".join("%s=%d" % pair for pair in zip(names, sizes))
