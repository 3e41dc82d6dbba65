"""Root becomes the login user, in a startup script, which Google runs as root."""

import base64
import bz2
import io
import os
import pwd
import sys
import time

#: Seconds to wait until Google's guest agent has made the user.
USER_LIMIT = 900


def become(name):
    """Becomes the user, with the variables of a login."""
    user = wait_for_user(name)
    if os.getuid() != user.pw_uid:
        os.initgroups(name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if os.path.exists("/etc/environment"):
        with open("/etc/environment", errors="replace") as file:
            for line in file:
                key, equals, value = line.strip().partition("=")
                if equals and not key.startswith("#"):
                    os.environ[key] = value.strip("\"'")
    os.environ.update(HOME=user.pw_dir, USER=name, LOGNAME=name, SHELL=user.pw_shell)
    os.chdir(user.pw_dir)
    os.umask(0o022)


def wait_for_user(name):
    deadline = time.time() + USER_LIMIT
    while True:
        try:
            user = pwd.getpwnam(name)
            if os.stat(user.pw_dir).st_uid == user.pw_uid:
                return user
        except (KeyError, OSError):
            pass
        if time.time() > deadline:
            sys.exit("The user %s does not exist on this host." % name)
        time.sleep(1)


def unpack_input():
    """The standard input is text, as a shell script can have it."""
    text = "".join(sys.stdin.read().split())
    sys.stdin = io.TextIOWrapper(io.BytesIO(bz2.decompress(base64.b85decode(text))))
