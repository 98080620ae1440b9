import uuid

import django.core.validators
from django.db import migrations, models

import tasks.models
import tasks.rules


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Task",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "name",
                    models.CharField(help_text="How people and logs call it.", max_length=128),
                ),
                ("description", models.CharField(blank=True, max_length=512)),
                ("tags", models.JSONField(blank=True, default=list)),
                (
                    "schedule_kind",
                    models.CharField(
                        choices=[
                            ("CRON", "Cron expression"),
                            ("EVERY", "Fixed interval"),
                            ("ONCE", "Once"),
                            ("MANUAL", "Only when triggered"),
                        ],
                        max_length=8,
                        verbose_name="schedule",
                    ),
                ),
                (
                    "cron_expr",
                    models.CharField(
                        blank=True, max_length=256, null=True, verbose_name="cron expression"
                    ),
                ),
                (
                    "every_seconds",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[django.core.validators.MaxValueValidator(2147483647)],
                        verbose_name="every",
                    ),
                ),
                ("run_at", models.DateTimeField(blank=True, null=True)),
                ("anchor", models.DateTimeField(editable=False, null=True)),
                ("start_at", models.DateTimeField(blank=True, null=True)),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                (
                    "jitter_seconds",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[django.core.validators.MaxValueValidator(2147483647)],
                        verbose_name="jitter",
                    ),
                ),
                (
                    "timezone",
                    models.CharField(
                        default=tasks.models.default_timezone,
                        max_length=64,
                        validators=[tasks.rules.validate_zone],
                        verbose_name="time zone",
                    ),
                ),
                (
                    "exec_type",
                    models.CharField(
                        choices=[
                            ("SYNC", "Call, the answer ends the run"),
                            ("ASYNC", "Call, a callback ends the run"),
                            ("JOB", "Put a job in the queue"),
                            ("NODE", "Push to a connected node"),
                        ],
                        default="SYNC",
                        max_length=8,
                        verbose_name="execution",
                    ),
                ),
                (
                    "http_method",
                    models.CharField(
                        choices=[
                            ("GET", "GET"),
                            ("POST", "POST"),
                            ("PUT", "PUT"),
                            ("PATCH", "PATCH"),
                            ("DELETE", "DELETE"),
                            ("HEAD", "HEAD"),
                            ("OPTIONS", "OPTIONS"),
                        ],
                        default="GET",
                        max_length=8,
                        verbose_name="method",
                    ),
                ),
                ("target_url", models.CharField(blank=True, max_length=2048, verbose_name="URL")),
                ("headers", models.JSONField(blank=True, db_column="headers_json", default=dict)),
                ("body_template", models.TextField(blank=True, verbose_name="body")),
                (
                    "connect_timeout_seconds",
                    models.FloatField(
                        default=tasks.models.default_connect_timeout,
                        validators=[
                            django.core.validators.MinValueValidator(0.1),
                            django.core.validators.MaxValueValidator(86400),
                        ],
                        verbose_name="connect timeout",
                    ),
                ),
                (
                    "timeout_seconds",
                    models.FloatField(
                        default=tasks.models.default_timeout,
                        validators=[
                            django.core.validators.MinValueValidator(0.1),
                            django.core.validators.MaxValueValidator(86400),
                        ],
                        verbose_name="total timeout",
                    ),
                ),
                ("follow_redirects", models.BooleanField(default=False)),
                ("secret_headers", models.JSONField(blank=True, default=list)),
                ("secret_paths", models.JSONField(blank=True, default=list)),
                ("work", models.JSONField(blank=True, null=True)),
                (
                    "retry_policy",
                    models.JSONField(
                        blank=True,
                        db_column="retry_policy_json",
                        default=tasks.models.default_retry_policy,
                    ),
                ),
                (
                    "max_concurrency",
                    models.PositiveIntegerField(
                        default=1, validators=[django.core.validators.MaxValueValidator(1000)]
                    ),
                ),
                (
                    "concurrency_policy",
                    models.CharField(
                        choices=[
                            ("QUEUE", "Queue: wait for a free slot"),
                            ("SKIP", "Skip: record it and go on"),
                            ("PARALLEL", "Parallel: ignore the limit"),
                        ],
                        default="QUEUE",
                        max_length=8,
                        verbose_name="overlap",
                    ),
                ),
                (
                    "misfire_policy",
                    models.CharField(
                        choices=[
                            ("FIRE_NOW", "Run the newest missed moment now"),
                            ("SKIP", "Only record what was missed"),
                            ("CATCH_UP_LIMITED", "Catch up, to a limit"),
                        ],
                        default="FIRE_NOW",
                        max_length=16,
                        verbose_name="when missed",
                    ),
                ),
                (
                    "misfire_grace_seconds",
                    models.PositiveIntegerField(
                        default=60,
                        validators=[django.core.validators.MaxValueValidator(2147483647)],
                        verbose_name="grace",
                    ),
                ),
                (
                    "catchup_limit",
                    models.PositiveIntegerField(
                        default=5, validators=[django.core.validators.MaxValueValidator(1000)]
                    ),
                ),
                (
                    "start_deadline_seconds",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(2147483647),
                        ],
                        verbose_name="start deadline",
                    ),
                ),
                (
                    "on_lost",
                    models.CharField(
                        choices=[
                            ("RETRY", "Call again (at least once)"),
                            ("FAIL", "Record a failure (at most once)"),
                        ],
                        default="RETRY",
                        max_length=8,
                        verbose_name="when lost",
                    ),
                ),
                (
                    "priority",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "Urgent"), (1, "High"), (2, "Normal"), (3, "Low")], default=2
                    ),
                ),
                (
                    "callback_method",
                    models.CharField(
                        choices=[("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH")],
                        default="POST",
                        max_length=8,
                    ),
                ),
                (
                    "callback_timeout_sec",
                    models.PositiveIntegerField(
                        default=300,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(2147483647),
                        ],
                        verbose_name="callback timeout",
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[("ENABLED", "Enabled"), ("DISABLED", "Disabled")],
                        default="ENABLED",
                        max_length=8,
                    ),
                ),
                ("disabled_reason", models.CharField(blank=True, editable=False, max_length=256)),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("ended", models.BooleanField(default=False, editable=False)),
                ("next_moment", models.DateTimeField(editable=False, null=True)),
                ("next_run_at", models.DateTimeField(editable=False, null=True)),
                ("deleted", models.BooleanField(default=False, editable=False)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                (
                    "live_name",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(models.When(deleted=False, then=models.F("name"))),
                        output_field=models.CharField(max_length=128, null=True),
                        unique=True,
                    ),
                ),
            ],
            options={
                "db_table": "tasks",
                "permissions": (("operate_task", "Can run, enable, disable and pause tasks"),),
                "indexes": [
                    models.Index(
                        condition=models.Q(
                            ("deleted", False),
                            ("next_run_at__isnull", False),
                            ("status", "ENABLED"),
                        ),
                        fields=["next_run_at", "id"],
                        name="task_due",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("schedule_kind__in", ("CRON", "EVERY", "ONCE", "MANUAL"))
                        ),
                        name="task_schedule_kind",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("exec_type__in", ("SYNC", "ASYNC", "JOB", "NODE"))),
                        name="task_exec_type",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "http_method__in",
                                ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"),
                            )
                        ),
                        name="task_http_method",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("callback_method__in", ("POST", "PUT", "PATCH"))),
                        name="task_callback_method",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("concurrency_policy__in", ("QUEUE", "SKIP", "PARALLEL"))
                        ),
                        name="task_concurrency_policy",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("misfire_policy__in", ("FIRE_NOW", "SKIP", "CATCH_UP_LIMITED"))
                        ),
                        name="task_misfire_policy",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("on_lost__in", ("RETRY", "FAIL"))), name="task_on_lost"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__in", (0, 1, 2, 3))), name="task_priority"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ("ENABLED", "DISABLED"))),
                        name="task_status",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("schedule_kind", "CRON"), ("cron_expr__isnull", True), _connector="XOR"
                        ),
                        name="task_cron_has_expr",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("schedule_kind", "EVERY"),
                            ("every_seconds__isnull", True),
                            _connector="XOR",
                        ),
                        name="task_every_has_seconds",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("schedule_kind", "ONCE"), ("run_at__isnull", True), _connector="XOR"
                        ),
                        name="task_once_has_run_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("end_at", None),
                            ("start_at", None),
                            ("end_at__gt", models.F("start_at")),
                            _connector="OR",
                        ),
                        name="task_window",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("next_run_at", None), ("next_moment__isnull", False), _connector="OR"
                        ),
                        name="task_next_has_moment",
                    ),
                ],
            },
        ),
    ]
