from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0001_initial"),
        ("tasks", "0003_held_tasks"),
    ]

    operations = [
        migrations.CreateModel(
            name="Pause",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tag", models.CharField(blank=True, max_length=64, unique=True)),
                ("reason", models.CharField(blank=True, max_length=256)),
                ("until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "db_table": "pauses",
            },
        ),
        migrations.RemoveConstraint(
            model_name="taskrun",
            name="run_missed_is_whole",
        ),
        migrations.AddIndex(
            model_name="taskrun",
            index=models.Index(
                condition=models.Q(
                    ("callback_deadline", None),
                    ("deadline_at", None),
                    ("end_time", None),
                    ("ready_at", None),
                ),
                fields=["task", "id"],
                name="run_parked",
            ),
        ),
        migrations.AddConstraint(
            model_name="taskrun",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("missed_count", None), ("missed_from", None), ("missed_to", None)),
                    models.Q(
                        ("missed_count__gte", 1),
                        ("missed_from__isnull", False),
                        ("missed_to__isnull", False),
                        ("status__in", ("MISSED", "SKIPPED")),
                    ),
                    _connector="OR",
                ),
                name="run_missed_is_whole",
            ),
        ),
    ]
