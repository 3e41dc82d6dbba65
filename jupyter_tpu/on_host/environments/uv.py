"""uv: found on the host, or downloaded from the package index that the host is configured for."""

import contextlib
import errno
import json
import os
import platform
import re
import shutil
import subprocess
import sys

from ..calls.paths import HOME, ROOT, exclusive_lock, private_dir, whole_file
from ..calls.processes import clean_environment
from ..calls.protocol import HostError, disk_full, emit, unreachable

OLDEST_UV = (0, 4, 0)


def find_uv():
    """The path of a uv that is new enough, or ""."""
    ours = os.path.join(ROOT, "environments", "")  # their uv would ask for uv again
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if not folder.startswith(ours))
    candidates = [os.path.join(ROOT, "bin", "uv"), shutil.which("uv", path=path) or ""]
    candidates += [os.path.join(HOME, folder, "bin", "uv") for folder in (".local", ".cargo")]
    for path in candidates:
        if path and os.access(path, os.X_OK):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                out = subprocess.run(
                    [path, "--version"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    timeout=20,
                ).stdout.decode()
                match = re.match(r"uv (\d+)\.(\d+)\.(\d+)", out)
                if match and tuple(map(int, match.groups())) >= OLDEST_UV:
                    return path
    return ""


def index_url():
    """The package index that this host is configured for."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if os.environ.get(name):
            value = os.environ[name].strip()
            # uv allows NAME=URL
            return re.sub(r"^[\w.-]+=(?=https?:|file:)", "", value)
    import configparser

    for path in (
        os.environ.get("PIP_CONFIG_FILE", ""),
        "~/.config/pip/pip.conf",
        "~/.pip/pip.conf",
        "/etc/pip.conf",
    ):
        config = configparser.RawConfigParser()
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            config.read(os.path.expanduser(path))
            for section in ("install", "global"):
                if config.has_option(section, "index-url"):
                    return config.get(section, "index-url").strip()
    return "https://pypi.org/simple"


def uv_environment(options=()):
    """The variables for uv; pip's where uv has none of its own.

    options: words or lines, of which one may choose the index. uv's variables would overrule it.
    """
    env = clean_environment()
    if any(re.match(r"\s*(-i|--index-url|--default-index)(?![\w-])", each) for each in options):
        for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
            env.pop(name, None)
    elif not any(env.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")):
        index = index_url()
        if index != "https://pypi.org/simple":
            env["UV_DEFAULT_INDEX"] = index
    links = env.get("PIP_FIND_LINKS", "").split()
    if links:
        env.setdefault("UV_FIND_LINKS", ",".join(links))
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE"):
        if os.path.isfile(env.get(name, "")):
            env.setdefault("SSL_CERT_FILE", env[name])
    return env


def certificates():
    import ssl

    context = ssl.create_default_context()
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        path = os.environ.get(name, "")
        with contextlib.suppress(OSError, ssl.SSLError):
            if os.path.isdir(path):
                context.load_verify_locations(capath=path)
            elif path:
                context.load_verify_locations(cafile=path)
    return context


#: What uv says of a package, and what a person reads.
_CAUSES = (
    (r"current Python version \(([\d.]+)\) does not satisfy (Python\S+) and (\S+) depends on",
     "{2} needs {1}, but this environment has Python {0}."),
    (r"(\S+) has no wheels with a matching Python (?:ABI|version) tag \(e\.g\., `(\w+)`\)",
     "{} has no wheel for this environment's Python ({})."),
    (r"Because ([\w.-]+) was not found in the package registry", "Package {} was not found."),
    (r"no version of ([^,]+?) and you require", "No available version matches {}."),
    (r"only ([^,]+?) (?:is|are) available and you require ([^,]+?),",
     "Only {} is available, but you asked for {}."),
    (r"Couldn't parse requirement.*?:\s*(.+)", "A package can't be read: {}"),
)  # fmt: skip
#: What it says of packages that exclude each other: each sentence of its proof.
_PROOF = re.compile(r"\bbecause (.+?), we can conclude", re.IGNORECASE)
#: A certificate whose time has not come, or is over: for uv and for OpenSSL.
_CERTIFICATE = re.compile(r"certificate (is |has )?(not valid yet|not yet valid|expired)")
#: What it says where a Python can't be downloaded: its name is in the address.
_NO_PYTHON = r"No interpreter found|No download found|Failed to \w+[^\n]*/cpython-3"
#: What uv says where a host can't download; the address behind it.
_DOWNLOAD = r"(?:[Ff]ailed to (?:fetch|download)|error sending request).*?(https?://[^\s`/]+)"


def uv_error(action, lines):
    """The error for uv's output: one plain sentence. All of the output is in the log."""
    text = "\n".join(lines)
    if re.search(r"[Nn]o space left on device|os error 28|[Dd]isk quota exceeded", text):
        return disk_full("%s needs more" % action.lower())
    if re.search(_NO_PYTHON, text):
        return HostError("NO_SUCH_PYTHON", "")
    for pattern, sentence in _CAUSES:
        match = re.search(pattern, text)
        if match:
            hint = "Correct the package names."
            if "this environment" in sentence:
                hint = "Ask for another version of it, or create an environment of another Python."
            return HostError("PACKAGE", sentence.format(*match.groups()), hint)
    proof = _PROOF.findall(" ".join(line.strip(" ×├╰─▶│") for line in lines))  # lines are folded
    if proof:
        clauses = proof[:1] if len(proof) == 1 else [proof[0], proof[-1]]
        return HostError(
            "PACKAGE",
            "No versions of the packages fit together: %s." % "; ".join(clauses),
            "Change the version of one of them, or leave one out.",
        )
    reasons = [line.strip(" ×├╰─▶│") for line in lines if line.strip()]
    reasons = [line for line in reasons if not line.startswith(("hint:", "warning:", "Using "))]
    match = re.search(_DOWNLOAD, text)
    if match and "404 Not Found" in text:
        return HostError(
            "PACKAGE", "%s does not have it." % match.group(1), "Correct the package names."
        )
    if match and _CERTIFICATE.search(text):
        return wrong_clock(match.group(1))
    if match:
        cause = re.sub(r"^cause: |\.$", "", reasons[-1])
        return unreachable("The host can't download from %s: %s." % (match.group(1), cause))
    reason = " ".join(reasons[-6:]) if reasons else "uv gave no reason"
    reason = re.sub(r"\s+", " ", reason)
    reason = re.sub(r"^error: ", "", reason).replace(" cause: ", ": ")
    return HostError(
        "ENVIRONMENT",
        "%s failed: %s" % (action, reason if len(reason) < 300 else reason[:300] + "…"),
        "The log has uv's full output.",
    )


def wrong_clock(address):
    """The error for a certificate that is not valid at the time which this host has."""
    import time

    return HostError(
        "ENVIRONMENT",
        "The host's clock says %s, when the certificate of %s is not valid."
        % (time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), address),
        "Set the clock on the host: sudo timedatectl set-ntp true. If it is right, the certificate "
        "is too old or too new.",
    )


def fetch(url, accept="*/*"):
    """An open response. Name and password in *url* become a header."""
    import base64
    import urllib.parse
    import urllib.request

    parts = urllib.parse.urlsplit(url)
    headers = {"Accept": accept, "User-Agent": "jupyter-tpu"}
    if parts.username:
        login = "%s:%s" % (
            urllib.parse.unquote(parts.username),
            urllib.parse.unquote(parts.password or ""),
        )
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(url, headers=headers)
    handlers = [urllib.request.HTTPSHandler(context=certificates())]
    return urllib.request.build_opener(*handlers).open(request, timeout=60)


def wheels(index):
    """[(name, address, sha256)] of uv's files in a simple index (PEP 503 or 691)."""
    import urllib.parse
    from html.parser import HTMLParser

    page = index.rstrip("/") + "/uv/"
    with fetch(page, "application/vnd.pypi.simple.v1+json, text/html;q=0.5") as answer:
        kind, body = answer.headers.get("Content-Type", ""), answer.read().decode()
    files = []
    if "json" in kind:
        for file in json.loads(body)["files"]:
            if not file.get("yanked"):
                files.append((file["filename"], file["url"], file["hashes"].get("sha256", "")))
    else:

        class Links(HTMLParser):
            def handle_starttag(self, tag, attrs):
                attributes = dict(attrs)
                if tag == "a" and attributes.get("href") and "data-yanked" not in attributes:
                    url, _, fragment = attributes["href"].partition("#")
                    name = urllib.parse.unquote(url.rpartition("/")[2])
                    sha = fragment[7:] if fragment.startswith("sha256=") else ""
                    files.append((name, url, sha))

        Links().feed(body)
    base = re.sub(r"//[^/@]*@", "//", page)
    login = re.match(r"\w+://([^/@]*)@([^/]*)", page)
    complete = []
    for name, url, sha in files:
        url = urllib.parse.urljoin(base, url)
        if login and urllib.parse.urlsplit(url).netloc == login.group(2):
            url = url.replace("//", "//%s@" % login.group(1), 1)
        complete.append((name, url, sha))
    return complete


def fits(name):
    """How well a wheel's platform fits this host: higher is better, 0 does not fit."""
    machine = platform.machine()
    tags = name[: -len(".whl")].split("-")[-1].split(".")
    if sys.platform == "darwin":
        return int(any(t.startswith("macosx") and t.endswith((machine, "2")) for t in tags))
    libc = platform.libc_ver()
    for tag in tags:
        match = re.match(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)$", tag)
        if match and match.group(4) == machine:
            if match.group(1) == "musllinux":
                return 1  # uv's are static
            if libc[0] == "glibc" and tuple(map(int, match.group(2, 3))) <= tuple(
                map(int, libc[1].split(".")[:2])
            ):
                return 2
    return 0


def choose(files):
    """The newest released wheel of uv for this host."""
    fitting = []
    for name, url, sha in files:
        match = re.match(r"uv-(\d+)\.(\d+)\.(\d+)-py3-none-.*\.whl$", name)
        if match and fits(name):
            fitting.append((tuple(map(int, match.groups())), fits(name), name, url, sha))
    return max(fitting)[2:] if fitting else None


def get_uv():
    """The path of uv; downloaded unless a new enough one is there."""
    path = find_uv()
    if path:
        emit(log="uv is installed: %s" % path)
        return {"uv": path}
    with exclusive_lock("uv"):
        path = find_uv()
        if not path:
            path = download_uv()
    return {"uv": path}


def download_uv():
    import hashlib
    import http.client
    import tempfile
    import urllib.error
    import zipfile

    index = index_url()
    shown = re.sub(r"//[^/@]*@", "//", index)
    try:
        chosen = choose(wheels(index))
        if chosen is None:
            raise HostError(
                "ENVIRONMENT",
                "The package index %s has no uv for this host (%s)." % (shown, platform.platform()),
                "Install uv there: https://docs.astral.sh/uv/getting-started/installation",
            )
        name, url, sha = chosen
        emit(log="Downloading %s" % name)
        with tempfile.TemporaryFile(dir=private_dir("bin")) as file, fetch(url) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            digest, got = hashlib.sha256(), 0
            while True:
                chunk = answer.read(1 << 18)
                if not chunk:
                    break
                digest.update(chunk)
                file.write(chunk)
                got += len(chunk)
                if size:
                    emit(part=round(0.95 * got / size, 2))
            if not sha or digest.hexdigest() != sha:
                raise HostError(
                    "ENVIRONMENT",
                    "The uv from %s does not match the checksum in the package index." % shown,
                    "Try again. If it fails again, don't trust that index or the proxy.",
                )
            with zipfile.ZipFile(file) as wheel:
                member = next(n for n in wheel.namelist() if n.endswith(".data/scripts/uv"))
                target = os.path.join(private_dir("bin"), "uv")
                with wheel.open(member) as source, whole_file(target, 0o755, "wb") as out:
                    shutil.copyfileobj(source, out)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        if getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT):
            raise
        if _CERTIFICATE.search(str(error)):
            raise wrong_clock(shown) from None
        raise HostError(
            "ENVIRONMENT",
            "uv could not be downloaded from %s: %s." % (shown, getattr(error, "reason", error)),
            "Check that the host can reach its package index, or install uv there.",
        ) from None
    return target
