"""What cells show that wait for the hosts of their kernel."""

from typing import Any

from jupyter_tpu.on_host.agent.pod.start_notice import StartNotice


def test_cells_that_wait_show_what_for_and_nothing_is_left_of_it_when_the_hosts_run():
    seen: list[tuple[bytes, str, str]] = []

    def publish(kind: str, content: dict[str, Any], header: bytes) -> None:
        seen.append((header, kind, content.get("data", {}).get("text/plain", "")))

    notice = StartNotice("id", publish)
    notice.update("Waiting for host 1.")
    notice.add(b"a")
    notice.add(b"b")
    notice.update("Waiting for host 1.")
    notice.update("Joining.")
    notice.update("")
    notice.update("")
    assert [event for event in seen if event[0] == b"b"] == [
        (b"b", "display_data", "Waiting for host 1."),
        (b"b", "update_display_data", "Joining."),
        (b"b", "clear_output", ""),
    ]
