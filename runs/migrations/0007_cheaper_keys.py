from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0006_lists_of_a_time"),
        ("tasks", "0004_changes_and_bundles"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="taskrun",
            name="run_once_per_slot",
        ),
        migrations.RemoveConstraint(
            model_name="taskrun",
            name="run_once_per_request",
        ),
        migrations.AddConstraint(
            model_name="taskrun",
            constraint=models.UniqueConstraint(
                condition=models.Q(("slot__isnull", False)),
                fields=("task", "slot"),
                name="run_once_per_slot",
            ),
        ),
        migrations.AddConstraint(
            model_name="taskrun",
            constraint=models.UniqueConstraint(
                condition=models.Q(("request_key__isnull", False)),
                fields=("task", "request_key"),
                name="run_once_per_request",
            ),
        ),
    ]
