"""The product's settings, in an environment of the tests' own: nothing of the machine's counts."""

import os
import tempfile

for name in [name for name in os.environ if name.startswith("CRONJOB_")]:
    del os.environ[name]
os.environ.pop("DATABASE_URL", None)
directory = tempfile.TemporaryDirectory(prefix="cronjob-tests-")  # gone with this process
os.environ["CRONJOB_DATA_DIR"] = directory.name
os.environ["CRONJOB_SECRET_KEY"] = "a key for tests, as long as a key should be, and no more"
os.environ["CRONJOB_BASE_URL"] = "http://testserver"
os.environ["CRONJOB_LOG_FORMAT"] = "text"
os.environ["CRONJOB_ALLOWED_HOSTS"] = "testserver,localhost,127.0.0.1"

from cronjob.settings import *  # noqa: E402

WHITENOISE_AUTOREFRESH = True  # or each client would list all static files first
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # logins by the hundred
