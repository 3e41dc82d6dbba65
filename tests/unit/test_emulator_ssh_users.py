"""Who may log in, from metadata as gcloud and the console write it."""

from datetime import UTC, datetime

from jupyter_tpu.emulator.model.os_login import authorized

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "ssh-ed25519 AAAAC3Nz me@laptop"


def test_each_line_authorizes_one_key_of_one_user():
    node = {"ssh-keys": f"me:{KEY}\nyou:ssh-rsa BBBB\nme:ssh-rsa CCCC\nme:{KEY}\n\n"}
    assert authorized(node, {}, NOW) == {"me": [KEY, "ssh-rsa CCCC"], "you": ["ssh-rsa BBBB"]}


def test_project_wide_keys_count_unless_the_node_blocks_them():
    project = {"ssh-keys": f"me:{KEY}"}
    assert authorized({}, project, NOW) == {"me": [KEY]}
    assert authorized({"block-project-ssh-keys": "TRUE"}, project, NOW) == {}


def test_a_key_counts_until_it_expires():
    line = 'me:ssh-rsa AAAA google-ssh {"userName":"me@x.org","expireOn":"%s"}'
    live = line % "2026-01-02T00:00:00+0000"
    dead = line % "2025-12-31T00:00:00+0000"
    assert list(authorized({"ssh-keys": live}, {}, NOW)) == ["me"]
    assert authorized({"ssh-keys": dead}, {}, NOW) == {}
    assert authorized({"ssh-keys": "me:ssh-rsa AAAA google-ssh nonsense"}, {}, NOW) == {}


def test_root_and_names_that_are_no_users_get_nothing():
    lines = f"root:{KEY}\n../x:{KEY}\na b:{KEY}\n:{KEY}\nno-colon\n-x:{KEY}"
    assert authorized({"ssh-keys": lines}, {}, NOW) == {}
