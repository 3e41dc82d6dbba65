"""Whether Jupyter AI's tools are taken away by the package mcp: a finding of doctor."""

import pytest

from jupyter_tpu.fleet.setup.preflight import mcp_findings


@pytest.mark.parametrize(
    ("server", "mcp", "warned"),
    [
        ((0, 3), (2, 3), True),
        ((0, 3), (1, 30), False),
        ((0, 4), (2, 3), False),
        ((), (2, 3), False),
        ((0, 3), (), False),
    ],
)
def test_doctor_says_that_jupyter_ai_has_no_tools(server, mcp, warned):
    installed = {"jupyter-server-mcp": server, "mcp": mcp}
    findings = list(mcp_findings(lambda package: installed[package]))
    assert [(finding.check, finding.state) for finding in findings] == [("mcp", "warning")] * warned
    assert all("uvx" in finding.hint for finding in findings)
