"""The agents' token, as a server asks for it."""

from jupyter_tpu.agent_token import AgentTokenFile, agent_token, token_file


def test_a_server_knows_the_token_that_is_in_the_file_now(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    known = AgentTokenFile()
    assert not known.has("")
    first = agent_token()
    assert known.has(first)
    assert not known.has("another")
    token_file().unlink()
    assert not known.has(first)
    second = agent_token()
    assert (known.has(first), known.has(second)) == (False, True)
    token_file().write_text("\n")
    assert not known.has("")
