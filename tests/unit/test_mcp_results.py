"""What MCP tools answer: no value of a token that TPUs get is in it, wherever a program put it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu import tokens
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.mcp import results


@pytest.fixture(autouse=True)
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "tpu"))
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    tokens.pass_on("HF_TOKEN")
    return "hf_verysecret"


def call(monkeypatch: pytest.MonkeyPatch, answer: Any) -> Any:
    monkeypatch.setattr(results, "TOOLS", {})

    async def tpu_test() -> Any:
        """A tool."""
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asyncio.run(results.tool("read-only")(tpu_test)())


def test_tokens_are_masked_in_output_in_results_and_in_errors(token, monkeypatch):
    answer = call(monkeypatch, results.output(f"key={token}\n", state="done"))
    assert answer["untrusted_output"] == "key=[HF_TOKEN]\n"
    nested = {"result": {"lines": [f"a {token}", 3]}, "progress": 0.5}
    assert call(monkeypatch, nested) == {
        "result": {"lines": ["a [HF_TOKEN]", 3]},
        "progress": 0.5,
    }
    failure = TPUError(f"{token} is not valid", Reason.INVALID, f"Not {token}.")
    with pytest.raises(results.ToolFailure) as raised:
        call(monkeypatch, failure)
    assert token not in str(raised.value)
    assert json.loads(str(raised.value))["hint"] == "Not [HF_TOKEN]."


def test_a_token_that_is_not_passed_on_is_not_looked_for(token, monkeypatch):
    tokens.keep_back("HF_TOKEN")
    assert call(monkeypatch, {"text": token}) == {"text": token}
