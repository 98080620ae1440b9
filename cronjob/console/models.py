"""Failed logins, for as long as they count against whoever tries again."""

from django.db import models


class LoginFailure(models.Model):
    account = models.CharField(max_length=150)
    address = models.CharField(max_length=45)
    at = models.DateTimeField()

    class Meta:
        db_table = "login_failures"
        default_permissions = ()
        indexes = (
            # how often this account failed from this address
            models.Index(fields=("account", "address", "at"), name="login_failure_of"),
            # forgetting
            models.Index(fields=("at",), name="login_failure_at"),
        )

    def __str__(self) -> str:
        return f"{self.account} from {self.address}"
