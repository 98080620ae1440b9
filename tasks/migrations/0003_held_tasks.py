from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0002_every_has_anchor"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("next_moment__isnull", False), ("next_run_at", None)),
                fields=["id"],
                name="task_held",
            ),
        ),
    ]
