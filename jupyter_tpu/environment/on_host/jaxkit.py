"""``from jupyter_tpu import jaxkit`` in an environment, of the version that connected it."""

import base64
import io
import os
import shutil
import zipfile
import zlib

from .packages import site_packages
from .paths import write_file

PACKAGE = "jupyter_tpu_jaxkit"


def install_jaxkit(path, digest, archive):
    """Puts jaxkit's sources into the environment at *path*; *archive* is `Bundle.data`
    in base64.

    They come after the packages, so a jupyter-tpu that the user installs there is the one that is
    used. Each version has a folder of its own: running kernels keep theirs.
    """
    site = site_packages(path)
    name = "%s_%s" % (PACKAGE, digest)
    folder = os.path.join(site, name)
    if not os.path.isdir(folder):
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        packed = io.BytesIO(zlib.decompress(base64.b64decode(archive)))
        with zipfile.ZipFile(packed) as sources:
            for zip_info in sources.infolist():
                # The same time everywhere, so that environments can share compiled modules.
                os.utime(sources.extract(zip_info, part), (0, 0))
        os.rename(part, folder)
    write_file(os.path.join(site, PACKAGE + ".pth"), name + "\n")
