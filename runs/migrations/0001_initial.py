import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tasks", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Process",
            fields=[
                ("name", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("host", models.CharField(max_length=64)),
                ("pid", models.PositiveIntegerField()),
                ("slots", models.PositiveIntegerField(default=0)),
                ("draining", models.BooleanField(default=False)),
                ("started_at", models.DateTimeField()),
                ("last_seen", models.DateTimeField()),
                ("lease_until", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "processes",
                "db_table": "processes",
            },
        ),
        migrations.CreateModel(
            name="SchedulerLock",
            fields=[
                ("lock_name", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("owner_id", models.CharField(max_length=128)),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "db_table": "scheduler_locks",
            },
        ),
        migrations.CreateModel(
            name="TaskRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "trigger",
                    models.CharField(
                        choices=[
                            ("SCHEDULE", "Schedule"),
                            ("MANUAL", "Manual"),
                            ("CATCH_UP", "Catch-up"),
                            ("REPLAY", "Replay"),
                        ],
                        default="SCHEDULE",
                        max_length=8,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("SCHEDULED", "Scheduled"),
                            ("RUNNING", "Running"),
                            ("RETRYING", "Retrying"),
                            ("CALLBACK_PENDING", "Callback pending"),
                            ("SUCCESS", "Success"),
                            ("CALLBACK_SUCCESS", "Callback success"),
                            ("FAILED", "Failed"),
                            ("TIMEOUT", "Timeout"),
                            ("FAILED_TIMEOUT", "Callback timeout"),
                            ("CANCELED", "Canceled"),
                            ("SKIPPED", "Skipped"),
                            ("MISSED", "Missed"),
                        ],
                        default="SCHEDULED",
                        max_length=16,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=256)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("max_attempts", models.PositiveIntegerField(default=1)),
                ("lost", models.PositiveIntegerField(default=0)),
                ("fence", models.PositiveIntegerField(default=0)),
                (
                    "priority",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "Urgent"), (1, "High"), (2, "Normal"), (3, "Low")], default=2
                    ),
                ),
                ("moment", models.DateTimeField(null=True)),
                ("scheduled_time", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("ready_at", models.DateTimeField(null=True)),
                ("next_retry_time", models.DateTimeField(null=True)),
                ("start_time", models.DateTimeField(null=True)),
                ("lateness_ms", models.PositiveBigIntegerField(null=True)),
                ("end_time", models.DateTimeField(null=True)),
                ("missed_from", models.DateTimeField(null=True)),
                ("missed_to", models.DateTimeField(null=True)),
                ("missed_count", models.PositiveBigIntegerField(null=True)),
                ("owner", models.CharField(max_length=128, null=True)),
                ("slot", models.PositiveIntegerField(null=True)),
                ("deadline_at", models.DateTimeField(null=True)),
                ("callback_deadline", models.DateTimeField(null=True)),
                ("override_body", models.TextField(null=True)),
                ("force_async", models.BooleanField(default=False)),
                ("request_key", models.CharField(max_length=255, null=True)),
                ("request_hash", models.CharField(blank=True, max_length=64)),
                ("template", models.JSONField(null=True)),
                ("request_method", models.CharField(blank=True, max_length=8)),
                ("request_url", models.TextField(blank=True)),
                ("request_headers", models.JSONField(default=dict)),
                ("request_body", models.TextField(blank=True)),
                ("response_code", models.PositiveSmallIntegerField(null=True)),
                ("response_headers", models.JSONField(default=dict)),
                ("response_body", models.TextField(blank=True)),
                ("response_truncated", models.BooleanField(default=False)),
                (
                    "error_kind",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "None"),
                            ("connect", "No connection"),
                            ("timeout", "Deadline passed"),
                            ("http", "HTTP status"),
                            ("body", "Body could not be read"),
                            ("refused", "Address refused"),
                            ("template", "Template could not be filled"),
                            ("callback", "Callback reported failure"),
                            ("lost", "Process died"),
                        ],
                        default="",
                        max_length=16,
                    ),
                ),
                ("error_message", models.CharField(blank=True, max_length=1024)),
                ("timings", models.JSONField(default=dict)),
                ("attempts", models.JSONField(default=list)),
                ("progress", models.FloatField(null=True)),
                ("trace_id", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "task",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="tasks.task",
                    ),
                ),
            ],
            options={
                "verbose_name": "run",
                "db_table": "task_runs",
                "permissions": (("operate_taskrun", "Can cancel and replay runs"),),
                "indexes": [
                    models.Index(
                        condition=models.Q(("ready_at__isnull", False)),
                        fields=["priority", "ready_at", "id"],
                        name="run_ready",
                    ),
                    models.Index(
                        condition=models.Q(("ready_at__isnull", False)),
                        fields=["ready_at", "id"],
                        name="run_oldest",
                    ),
                    models.Index(
                        condition=models.Q(("deadline_at__isnull", False)),
                        fields=["owner"],
                        name="run_busy",
                    ),
                    models.Index(
                        condition=models.Q(("deadline_at__isnull", False)),
                        fields=["deadline_at"],
                        name="run_overdue",
                    ),
                    models.Index(
                        condition=models.Q(("callback_deadline__isnull", False)),
                        fields=["callback_deadline", "id"],
                        name="run_callback_due",
                    ),
                    models.Index(
                        condition=models.Q(("end_time", None)),
                        fields=["task", "status"],
                        name="run_open_of_task",
                    ),
                    models.Index(fields=["task", "-id"], name="run_of_task"),
                    models.Index(fields=["task", "scheduled_time"], name="run_of_task_by_time"),
                    models.Index(fields=["scheduled_time"], name="run_by_time"),
                    models.Index(fields=["status", "-id"], name="run_by_status"),
                    models.Index(
                        condition=models.Q(("end_time__isnull", False)),
                        fields=["status", "end_time"],
                        name="run_ended",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("task", "moment"), name="run_once_per_moment"),
                    models.UniqueConstraint(fields=("task", "slot"), name="run_once_per_slot"),
                    models.UniqueConstraint(
                        fields=("task", "request_key"), name="run_once_per_request"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                (
                                    "SCHEDULED",
                                    "RUNNING",
                                    "RETRYING",
                                    "CALLBACK_PENDING",
                                    "SUCCESS",
                                    "CALLBACK_SUCCESS",
                                    "FAILED",
                                    "TIMEOUT",
                                    "FAILED_TIMEOUT",
                                    "CANCELED",
                                    "SKIPPED",
                                    "MISSED",
                                ),
                            )
                        ),
                        name="run_status",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("trigger__in", ("SCHEDULE", "MANUAL", "CATCH_UP", "REPLAY"))
                        ),
                        name="run_trigger",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "error_kind__in",
                                (
                                    "",
                                    "connect",
                                    "timeout",
                                    "http",
                                    "body",
                                    "refused",
                                    "template",
                                    "callback",
                                    "lost",
                                ),
                            )
                        ),
                        name="run_error_kind",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__in", (0, 1, 2, 3))), name="run_priority"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                (
                                    "SUCCESS",
                                    "CALLBACK_SUCCESS",
                                    "FAILED",
                                    "TIMEOUT",
                                    "FAILED_TIMEOUT",
                                    "CANCELED",
                                    "SKIPPED",
                                    "MISSED",
                                ),
                            ),
                            ("end_time__isnull", True),
                            _connector="XOR",
                        ),
                        name="run_final_iff_ended",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "RUNNING"), ("deadline_at__isnull", True), _connector="XOR"
                        ),
                        name="run_running_has_deadline",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "CALLBACK_PENDING"),
                            ("callback_deadline__isnull", True),
                            _connector="XOR",
                        ),
                        name="run_pending_has_deadline",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("trigger__in", ("MANUAL", "REPLAY")), _negated=True),
                            ("moment__isnull", True),
                            _connector="XOR",
                        ),
                        name="run_planned_has_moment",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("slot", None),
                            ("status__in", ("RUNNING", "RETRYING", "CALLBACK_PENDING")),
                            models.Q(
                                ("status", "SCHEDULED"), ("trigger__in", ("MANUAL", "REPLAY"))
                            ),
                            _connector="OR",
                        ),
                        name="run_slot_only_occupying",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "SCHEDULED"), _negated=True),
                            models.Q(("attempt", 0), ("owner", None)),
                            _connector="OR",
                        ),
                        name="run_scheduled_is_untouched",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ready_at", None),
                            ("status__in", ("SCHEDULED", "RETRYING")),
                            _connector="OR",
                        ),
                        name="run_ready_only_waiting",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "RETRYING"),
                            ("next_retry_time__isnull", True),
                            _connector="XOR",
                        ),
                        name="run_retrying_says_when",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("missed_count", None), ("missed_from", None), ("missed_to", None)
                            ),
                            models.Q(
                                ("missed_count__gte", 1),
                                ("missed_from__isnull", False),
                                ("missed_to__isnull", False),
                                ("status", "MISSED"),
                            ),
                            _connector="OR",
                        ),
                        name="run_missed_is_whole",
                    ),
                ],
            },
        ),
    ]
