"""What a test module says about the databases it runs on, as its `pytestmark`."""

import pytest

use = pytest.mark.usefixtures("database")

# On both databases, each test in a transaction that is rolled back.
both = [use, pytest.mark.django_db]

# On both databases, with real commits: for threads, and for what happens between transactions.
committing = [use, pytest.mark.django_db(transaction=True)]

# What does not depend on the database runs on one.
sqlite = [use, pytest.mark.on("sqlite"), pytest.mark.django_db]
postgresql = [use, pytest.mark.on("postgresql"), pytest.mark.django_db]
