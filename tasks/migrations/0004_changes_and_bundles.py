import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0003_held_tasks"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="bundle",
            field=models.CharField(blank=True, editable=False, max_length=64),
        ),
        migrations.CreateModel(
            name="Change",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("who", models.CharField(max_length=160)),
                (
                    "verb",
                    models.CharField(
                        choices=[
                            ("CREATE", "Created"),
                            ("EDIT", "Edited"),
                            ("ENABLE", "Enabled"),
                            ("DISABLE", "Disabled"),
                            ("DELETE", "Deleted"),
                        ],
                        max_length=8,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=256)),
                ("version", models.PositiveIntegerField()),
                ("old", models.JSONField(default=dict)),
                ("new", models.JSONField(default=dict)),
                ("values", models.JSONField(default=dict)),
                (
                    "task",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="changes",
                        to="tasks.task",
                    ),
                ),
            ],
            options={
                "db_table": "task_changes",
                "default_permissions": (),
                "indexes": [models.Index(fields=["task", "-id"], name="change_of_task")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("verb__in", ("CREATE", "EDIT", "ENABLE", "DISABLE", "DELETE"))
                        ),
                        name="change_verb",
                    )
                ],
            },
        ),
    ]
