#!/usr/bin/env bash
# torch_tpu 0.2.0 with torch 2.13.0: torch.tpu.is_available() raises a RuntimeError.
#
# A user notices: the test that PyTorch has for each other device (torch.cuda.is_available()) ends their
# program, also where there is no TPU and the answer would be no.
# Seen: TorchTPU puts torch.tpu there with or without chips, and most of its functions refuse calls of a
# user's own code ("internal to TorchTPU"). torch.accelerator.is_available() answers.
# Exits with 0 while this is so, with 1 when it changes. Needs Python 3.11 to 3.14 (PYTHON=…), 2 GB.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
pip="$folder/env/bin/python -m pip install --quiet --disable-pip-version-check"
# PyTorch for the CPU: from what pip is configured for, or from PyTorch's own index.
$pip torch==2.13.0+cpu 2>/dev/null || $pip torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
$pip torch_tpu==0.2.0
"$folder/env/bin/python" - 2>/dev/null <<'PYTHON'
import torch

print("torch.accelerator.is_available():", torch.accelerator.is_available())
print('hasattr(torch, "tpu"):', hasattr(torch, "tpu"))
try:
    print("torch.tpu.is_available():", torch.tpu.is_available())
except RuntimeError as error:
    print("torch.tpu.is_available():", error)
    assert "internal to TorchTPU" in str(error)
else:
    raise SystemExit("it answers")
assert hasattr(torch, "tpu") and not torch.accelerator.is_available()
PYTHON
