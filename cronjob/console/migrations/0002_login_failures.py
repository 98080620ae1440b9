from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0001_groups")]

    operations = [
        migrations.CreateModel(
            name="LoginFailure",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("account", models.CharField(max_length=150)),
                ("address", models.CharField(max_length=45)),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "login_failures",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["account", "address", "at"], name="login_failure_of"),
                    models.Index(fields=["at"], name="login_failure_at"),
                ],
            },
        ),
    ]
