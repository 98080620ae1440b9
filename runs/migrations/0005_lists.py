from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0004_one_index_for_one_set"),
        ("tasks", "0004_changes_and_bundles"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="taskrun",
            index=models.Index(
                condition=models.Q(("trigger", "SCHEDULE"), _negated=True),
                fields=["trigger", "-id"],
                name="run_by_trigger",
            ),
        ),
        migrations.RemoveIndex(
            model_name="taskrun",
            name="run_of_task",
        ),
        migrations.AddIndex(
            model_name="taskrun",
            index=models.Index(fields=["task", "-id", "status"], name="run_of_task"),
        ),
    ]
