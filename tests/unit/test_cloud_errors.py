"""Google's wordings, as seen in public reports, and what becomes of them."""

import pickle

import pytest
from google.api_core import exceptions
from google.longrunning.operations_pb2 import Operation
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from refusals import raises

from jupyter_tpu.cloud.errors import call_error, operation_error
from jupyter_tpu.cloud.tpu.operations import wait_for_operation
from jupyter_tpu.errors import Reason, TPUError

CAPACITY = (
    'There is no more capacity in the zone "us-central1-c"; you can try in another zone where '
    "Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) "
    "[EID: 0x9f48947a7d57c8d]"
)


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (8, CAPACITY, Reason.NO_CAPACITY),
        (
            9,
            "Insufficient reserved capacity. Contact customer support to increase your "
            "reservation. [EID: 0x7adf6d58c08b0aa4]",
            Reason.NO_CAPACITY,
        ),
        (
            8,
            "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. "
            "Limit: 0 in region us-east5.",
            Reason.QUOTA,
        ),
        (
            8,
            "Quota 'TPUV2sPreemptiblePodPerProjectPerZoneForTPUAPI' exhausted. Limit 32 in zone "
            "europe-west4-a",
            Reason.QUOTA,
        ),
        (
            8,
            "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute'",
            Reason.RATE_LIMITED,
        ),
        (
            3,
            "Cloud TPU received a bad request. update is not supported while in state PREEMPTED "
            "[EID: 0x73013519f5b7feb2]",
            Reason.CONFLICT,
        ),
        (
            3,
            "Cloud TPU received a bad request. the accelerator v4-128 was not found in zone "
            "us-central2-b [EID: 0x945ef875d10e8e13]",
            Reason.INVALID,
        ),
        (
            3,
            'CloudTpu received an invalid AcceleratorType, "v3-8" for zone "us-central1-c". Valid '
            'values are "v2-8, ".',
            Reason.INVALID,
        ),
        (7, "Location us-east1-d is not found or access is unauthorized.", Reason.PERMISSION),
        (
            7,
            "Permission 'tpu.nodes.create' denied on 'projects/p/locations/z' (or it may not "
            "exist).",
            Reason.PERMISSION,
        ),
        (6, "Resource 'projects/p/locations/z/nodes/n' already exists", Reason.EXISTS),
        (5, "Resource 'projects/p/locations/z/nodes/n' was not found", Reason.NOT_FOUND),
        (
            9,
            "Your request to provision TPU Node has been denied. Please migrate to TPU VM "
            "Architecture",
            Reason.INVALID,
        ),
        (13, "Internal error. [EID: 0x1]", Reason.UNAVAILABLE),
        (8, "Resource has been exhausted (e.g. check quota).", Reason.UNAVAILABLE),
        (8, "Something else has run out.", Reason.UNAVAILABLE),
        # Names with the words of other errors in them.
        (
            5,
            "Resource 'projects/p/locations/z/nodes/quota-exceeded' was not found",
            Reason.NOT_FOUND,
        ),
        (5, "Node quota-exceeded was not found.", Reason.NOT_FOUND),
        (6, "Resource 'projects/quota-team/locations/z/nodes/n' already exists", Reason.EXISTS),
        (
            7,
            "Permission 'tpu.nodes.create' denied on 'projects/my-quota-exhausted/locations/z' "
            "(or it may not exist).",
            Reason.PERMISSION,
        ),
        (99, "Something new.", Reason.INTERNAL),
    ],
)
def test_each_wording_has_its_reason_and_keeps_googles_sentence(code, message, reason):
    error = operation_error(Status(code=code, message=message))
    assert error.reason is reason
    assert isinstance(error, ValueError) == (reason is Reason.INVALID)
    assert "EID" not in error.message
    assert error.message.endswith((".", ")"))
    words = message.partition(" [EID")[0].removeprefix("Cloud TPU received a bad request. ")
    assert words[1:].rstrip(".") in error.message


@pytest.mark.parametrize(
    ("message", "scope"),
    [
        (CAPACITY, "zone"),
        ("Quota limit 'X' has been exceeded. Limit: 0 in region us-east5.", "region"),
        ("Quota 'TPUV2sPerProjectPerZoneForTPUAPI' exhausted.", "zone"),
        ("Quota exceeded for quota metric 'R' and limit 'R per minute per project'", "project"),
        ("Internal error in zone us-east5-a.", ""),
    ],
)
def test_a_limit_says_how_far_it_reaches(message, scope):
    assert operation_error(Status(code=8, message=message)).scope == scope


def test_googles_time_to_wait_and_its_kind_of_limit_are_kept():
    info = error_details_pb2.ErrorInfo(
        reason="RATE_LIMIT_EXCEEDED",
        domain="googleapis.com",
        metadata={"quota_limit": "WriteRequestsPerMinutePerProject"},
    )
    wait = error_details_pb2.RetryInfo()
    wait.retry_delay.FromMilliseconds(12_500)
    status = Status(code=8, message="Too much.")
    for detail in (info, wait):
        status.details.add().Pack(detail)
    status.details.add(type_url="type.googleapis.com/of.tomorrow", value=b"?")
    over_json = exceptions.TooManyRequests(
        "Too much.",
        details=[
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "RATE_LIMIT_EXCEEDED",
                "metadata": {"quota_limit": "WriteRequestsPerMinutePerProject"},
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.500s"},
        ],
    )
    for error in (
        operation_error(status),
        call_error(exceptions.ResourceExhausted("Too much.", details=[info, wait]), timeout=1),
        call_error(over_json, timeout=1),
        pickle.loads(pickle.dumps(operation_error(status))),
    ):
        assert error.reason is Reason.RATE_LIMITED
        assert error.retry_after == 12.5
        assert error.scope == "project"


def test_the_hint_for_a_switched_off_api_is_the_command_that_switches_it_on():
    error = exceptions.Forbidden(
        "Cloud TPU API has not been used in project 123 before or it is disabled. Enable it by "
        "visiting https://console.developers.google.com/…"
    )
    problem = call_error(error, timeout=1, project="mine")
    assert problem.reason is Reason.PERMISSION
    assert "gcloud services enable tpu.googleapis.com --project mine" in problem.hint


def test_the_hint_for_a_missing_quota_project_is_the_command_that_sets_it():
    error = exceptions.Forbidden(
        "Your application is authenticating by using local Application Default Credentials. The "
        "tpu.googleapis.com API requires a quota project, which is not set by default."
    )
    problem = call_error(error, timeout=1, project="mine")
    assert problem.reason is Reason.PERMISSION
    assert "set-quota-project mine" in problem.hint


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (exceptions.TooManyRequests("Quota limit 'X' has been exceeded."), Reason.QUOTA),
        (exceptions.ResourceExhausted("Quota limit 'X' has been exceeded."), Reason.QUOTA),
        (exceptions.Conflict("Another operation."), Reason.CONFLICT),
        (exceptions.Aborted("Another operation."), Reason.CONFLICT),
        (exceptions.NotFound("Gone."), Reason.NOT_FOUND),
        (exceptions.DeadlineExceeded("Deadline Exceeded"), Reason.TIMEOUT),
        (exceptions.Unauthenticated("Request had invalid credentials."), Reason.NO_CREDENTIALS),
        (exceptions.ServiceUnavailable("DNS resolution failed"), Reason.UNAVAILABLE),
        (
            exceptions.ServiceUnavailable(
                "Getting metadata from plugin failed with error: ('invalid_grant: Token has been "
                "expired or revoked.', {'error': 'invalid_grant'})"
            ),
            Reason.NO_CREDENTIALS,
        ),
        (
            exceptions.ServiceUnavailable(
                "Getting metadata from plugin failed with error: "
                "HTTPSConnectionPool(host='oauth2.googleapis.com', port=443): Max retries exceeded"
            ),
            Reason.UNAVAILABLE,
        ),
        # A failed operation over async gRPC: no code but that in its errors.
        (
            exceptions.GoogleAPICallError(CAPACITY, errors=(Status(code=8, message=CAPACITY),)),
            Reason.NO_CAPACITY,
        ),
    ],
)
def test_a_calls_error_has_the_same_reason_over_every_transport(error, reason):
    assert call_error(error, timeout=1).reason is reason


def test_a_refused_login_says_so_without_pythons_noise():
    error = exceptions.ServiceUnavailable(
        "Getting metadata from plugin failed with error: ('invalid_grant: Bad Request', {'a': 1})"
    )
    problem = call_error(error, timeout=1)
    assert "gcloud auth application-default login" in problem.hint
    assert "{" not in problem.message


def test_the_emulators_silence_is_not_blamed_on_google():
    problem = call_error(exceptions.ServiceUnavailable("refused"), timeout=1, emulated=True)
    assert "emulator" in problem.message
    assert "Google" not in str(problem)


# ---- waiting for operations ---------------------------------------------------------------------


class Operations:
    """Answers about one operation, in turn; the last one stays."""

    def __init__(self, *answers: Operation | TPUError) -> None:
        self.answers = list(answers)

    async def __call__(self, name: str) -> Operation:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, TPUError):
            raise answer
        return answer


FAILED = Operation(name="o", done=True, error=Status(code=8, message=CAPACITY))


async def test_a_failed_operation_raises_its_reason():
    with raises(Reason.NO_CAPACITY):
        await wait_for_operation(Operation(name="o"), Operations(FAILED), what="creating x")


async def test_an_operation_that_was_done_at_once_is_not_asked_for():
    done = Operation(name="o", done=True)
    assert await wait_for_operation(done, Operations(FAILED), what="creating x") is None


async def test_a_poll_that_fails_for_the_networks_sake_is_repeated():
    flaky = Operations(TPUError("away", Reason.UNAVAILABLE), Operation(name="o", done=True))
    await wait_for_operation(Operation(name="o"), flaky, what="creating x")
    refused = Operations(TPUError("no", Reason.PERMISSION))
    with raises(Reason.PERMISSION):
        await wait_for_operation(Operation(name="o"), refused, what="creating x")


async def test_waiting_has_a_limit():
    with raises(Reason.TIMEOUT):
        await wait_for_operation(
            Operation(name="o"), Operations(Operation(name="o")), what="creating x", limit=0.3
        )
