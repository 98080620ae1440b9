import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("runs", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CallbackToken",
            fields=[
                ("token_hash", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("attempt", models.PositiveIntegerField()),
                (
                    "task_run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="callback_tokens",
                        to="runs.taskrun",
                    ),
                ),
            ],
            options={
                "db_table": "callback_tokens",
            },
        ),
        migrations.CreateModel(
            name="AsyncCallback",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("received_at", models.DateTimeField()),
                (
                    "status",
                    models.CharField(
                        choices=[("RECEIVED", "Received"), ("IGNORED", "Ignored")], max_length=8
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=256)),
                ("headers", models.JSONField(db_column="headers_json", default=dict)),
                ("body", models.TextField(blank=True)),
                (
                    "task_run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="callbacks",
                        to="runs.taskrun",
                    ),
                ),
            ],
            options={
                "verbose_name": "callback",
                "db_table": "async_callbacks",
                "indexes": [
                    models.Index(fields=["task_run", "id"], name="callback_of_run"),
                    models.Index(fields=["received_at"], name="callback_by_time"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ("RECEIVED", "IGNORED"))),
                        name="callback_status",
                    )
                ],
            },
        ),
    ]
