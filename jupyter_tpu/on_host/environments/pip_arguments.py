"""The arguments of ``pip`` and ``uv pip``: read one by one, and pip's made into those of uv."""

import re

from ..calls.protocol import HostError

#: Options with a value, of both.
_WITH_VALUE = set(
    re.findall(
        r"\S+",
        """-b -c -C -d -e -f -i -p -P -r -t --abi --allow-insecure-host --build-constraint
        --build-constraints --cache-dir --cert --client-cert --color --config-file --config-setting
        --config-settings --constraint --constraints --default-index --dest --directory --editable
        --exclude --excludes --exclude-newer --exists-action --extra --extra-index-url --find-links
        --format --global-option --group --implementation --index --index-strategy --index-url
        --keyring-provider --link-mode --log --no-binary --no-build-isolation-package
        --no-build-package --only-binary --override --overrides --path --platform --prefix
        --prerelease --progress-bar --project --proxy --python --python-platform --python-version
        --refresh-package --reinstall-package --report --requirement --requirements --resolution
        --retries --root --root-user-action --src --target --timeout --torch-backend
        --trusted-host --upgrade-package --upgrade-strategy --use-deprecated --use-feature""",
    )
)
#: Options of pip that change nothing here.
_IGNORED = re.findall(
    r"\S+",
    """--user -y --yes --disable-pip-version-check --no-input --no-python-version-warning
    --no-warn-script-location --no-warn-conflicts --prefer-binary --use-pep517 --require-virtualenv
    --require-venv --check-build-dependencies --no-clean --debug -l --local --root-user-action
    --progress-bar --timeout --retries --log --exists-action --use-feature --use-deprecated
    --src""",
)
#: Options that uv has by another name.
_RENAMED = {"-I": "--reinstall", "--ignore-installed": "--reinstall", "--isolated": "--no-config"}
#: Options that uv reads from a variable.
_VARIABLES = {
    "--proxy": ("HTTPS_PROXY", "HTTP_PROXY"),
    "--cert": ("SSL_CERT_FILE",),
    "--client-cert": ("SSL_CLIENT_CERT",),
}
#: Options of pip that uv has not.
_MISSING = re.findall(
    r"\S+",
    """--abi --dest --global-option --ignore-requires-python --implementation --no-use-pep517
    --not-required --path --platform --report --root""",
)


class PipArgument:
    """One argument: an option with its value, or a word (then *option* is "").

    given: as it was typed.
    """

    def __init__(self, option, value, given):
        self.option, self.value, self.given = option, value, given


def read(words):
    """The arguments that *words* are."""
    arguments, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if word == "--" or not re.match(r"-.", word):
            arguments.append(PipArgument("", "" if word == "--" else word, [word]))
            continue
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option[:2] in _WITH_VALUE and len(option) > 2 and not option.startswith("--"):
            option, value = option[:2], option[2:]
            arguments.append(PipArgument(option, value, [word]))
        elif option in _WITH_VALUE and not equals and rest:
            value = rest.pop(0)
            arguments.append(PipArgument(option, value, [word, value]))
        else:
            arguments.append(PipArgument(option, value, [word]))
    return arguments


def as_uv(arguments, variables):
    """pip's *arguments* as uv takes them; some become *variables*.

    Raises HostError for an option that uv has not.
    """
    kept = []
    for argument in arguments:
        option = argument.option
        if option in _MISSING:
            raise HostError(
                "INVALID",
                "pip in this environment is uv, which has no option %s." % option,
                "To get the real one: pip install pip",
            )
        if option in _VARIABLES:
            variables.update(dict.fromkeys(_VARIABLES[option], argument.value))
        elif option in _RENAMED:
            kept.append(PipArgument(_RENAMED[option], "", [_RENAMED[option]]))
        elif option == "--upgrade-strategy":
            if argument.value == "eager":
                kept.append(PipArgument("--upgrade", "", ["--upgrade"]))
        elif option not in _IGNORED:
            kept.append(argument)
    return kept
