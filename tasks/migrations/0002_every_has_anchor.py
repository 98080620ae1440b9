from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0001_initial"),
    ]

    operations = [
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("schedule_kind", "EVERY"), _negated=True),
                    ("anchor__isnull", False),
                    _connector="OR",
                ),
                name="task_every_has_anchor",
            ),
        ),
    ]
