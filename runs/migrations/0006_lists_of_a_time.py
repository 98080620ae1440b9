from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0005_lists"),
        ("tasks", "0004_changes_and_bundles"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="taskrun",
            name="run_by_status",
        ),
        migrations.AddIndex(
            model_name="taskrun",
            index=models.Index(fields=["status", "-id", "trigger", "task"], name="run_by_status"),
        ),
        migrations.AddIndex(
            model_name="taskrun",
            index=models.Index(
                condition=models.Q(("end_time__isnull", False)),
                fields=["status", "scheduled_time", "task"],
                name="run_ended_by_time",
            ),
        ),
    ]
