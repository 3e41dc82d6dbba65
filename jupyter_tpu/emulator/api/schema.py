"""The messages of each version of the API, from Google's own descriptors.

Google's Python client lacks some fields that the service has and gcloud 528 sends or shows. They
are added here, with field numbers of ours: over REST fields go by their names, and a gRPC client
that does not have a field skips it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, message_factory
from google.rpc import error_details_pb2

VERSIONS = ("v2", "v2alpha1")
#: The number of the first field that is added to a message.
FIRST_NUMBER = 1000

_Field = descriptor_pb2.FieldDescriptorProto
#: Version → message → field → its type: "string", or the path of a message or enum.
_FIELDS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "v2": {
        "UpcomingMaintenance": {
            "type_": "UpcomingMaintenance.MaintenanceType",
            "can_reschedule": "bool",
            "window_start_time": "string",
            "window_end_time": "string",
            "latest_window_start_time": "string",
            "maintenance_status": "UpcomingMaintenance.MaintenanceStatus",
        },
        "Node": {"upcoming_maintenance": "UpcomingMaintenance"},
    },
    "v2alpha1": {
        "SchedulingConfig": {
            "provisioning_model": "SchedulingConfig.ProvisioningModel",
            "reservation_name": "string",
            "termination_timestamp": "google.protobuf.Timestamp",
        },
        "RunDuration": {
            "max_run_duration": "google.protobuf.Duration",
            "termination_time": "google.protobuf.Timestamp",
        },
        "QueuedResource": {
            "provisioning_model": "QueuedResource.ProvisioningModel",
            "run_duration": "RunDuration",
        },
    },
}
_MODELS = ("PROVISIONING_MODEL_UNSPECIFIED", "STANDARD", "SPOT", "RESERVATION_BOUND")
#: Version → message → enum inside it → its values, to which these are added.
_ENUMS: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]] = {
    "v2": {
        "UpcomingMaintenance": {
            "MaintenanceType": {"UNKNOWN_TYPE": 0, "SCHEDULED": 1, "UNSCHEDULED": 2},
            "MaintenanceStatus": {"UNKNOWN": 0, "PENDING": 1, "ONGOING": 2},
        },
    },
    "v2alpha1": {
        "SchedulingConfig": {
            "ProvisioningModel": {name: number for number, name in enumerate(_MODELS)}
        },
        "QueuedResource": {
            "ProvisioningModel": {
                name: number for number, name in enumerate((*_MODELS, "FLEX_START"))
            }
        },
        "AcceleratorConfig": {"Type": {"TPU7X": 12, "V6EA": 13}},
    },
}


class Schema:
    """The messages of one version; `message` gives their classes by name."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.package = f"google.cloud.tpu.{version}"
        client = importlib.import_module(f"google.cloud.tpu_{version}")
        file = client.Node.pb().DESCRIPTOR.file
        extended = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(extended)
        self._extend(extended)
        #: In which JSON's Any is looked up, too.
        self.pool = descriptor_pool.DescriptorPool()
        known: set[str] = set()
        others = (operations_pb2, empty_pb2, error_details_pb2)
        for needed in (*file.dependencies, *(module.DESCRIPTOR for module in others)):
            for dependency in _with_dependencies(needed):
                if dependency.name not in known:
                    known.add(dependency.name)
                    self.pool.AddSerializedFile(dependency.serialized_pb)
        self.pool.AddSerializedFile(extended.SerializeToString())

    @cache  # noqa: B019 – there are two schemas, for as long as the process runs
    def message(self, name: str) -> Any:
        """The class of the message *name* ("Node", "QueuedResource.Tpu.NodeSpec")."""
        descriptor = self.pool.FindMessageTypeByName(f"{self.package}.{name}")
        return message_factory.GetMessageClass(descriptor)

    @cached_property
    def service(self) -> str:
        return f"{self.package}.Tpu"

    def _extend(self, file: Any) -> None:
        messages = {message.name: message for message in file.message_type}
        for name in [*_ENUMS[self.version], *_FIELDS[self.version]]:
            if name not in messages:
                messages[name] = file.message_type.add(name=name)
        for name, enums in _ENUMS[self.version].items():
            present = {enum.name: enum for enum in messages[name].enum_type}
            for enum_name, values in enums.items():
                enum = present.get(enum_name) or messages[name].enum_type.add(name=enum_name)
                for value, number in values.items():
                    enum.value.add(name=value, number=number)
        for name, fields in _FIELDS[self.version].items():
            for number, (field_name, kind) in enumerate(fields.items(), FIRST_NUMBER):
                first, *others = field_name.rstrip("_").split("_")
                field = messages[name].field.add(
                    name=field_name,
                    json_name=first + "".join(map(str.title, others)),
                    number=number,
                    label=_Field.LABEL_OPTIONAL,
                )
                self._set_type(field, kind)

    def _set_type(self, field: Any, kind: str) -> None:
        if kind in ("string", "bool"):
            field.type = _Field.TYPE_STRING if kind == "string" else _Field.TYPE_BOOL
            return
        outer, _, enum = kind.rpartition(".")
        is_enum = enum in _ENUMS[self.version].get(outer, {})
        field.type = _Field.TYPE_ENUM if is_enum else _Field.TYPE_MESSAGE
        field.type_name = f".{kind}" if kind.startswith("google.") else f".{self.package}.{kind}"


@cache
def schema(version: str) -> Schema:
    """The messages of *version*. The first call of each takes 0.1 s of processor time."""
    return Schema(version)


def _with_dependencies(file: Any) -> Iterator[Any]:
    for dependency in file.dependencies:
        yield from _with_dependencies(dependency)
    yield file
