import django.db.models.deletion
from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def find_tasks(apps, schema_editor):
    runs = apps.get_model("runs", "TaskRun").objects.filter(pk=OuterRef("task_run_id"))
    callbacks = apps.get_model("callbacks", "AsyncCallback").objects.filter(task=None)
    callbacks.update(task_id=Subquery(runs.values("task_id")[:1]))


class Migration(migrations.Migration):
    dependencies = [
        ("callbacks", "0002_callback_counts"),
        ("runs", "0005_lists"),
        ("tasks", "0004_changes_and_bundles"),
    ]

    operations = [
        migrations.AddField(
            model_name="asynccallback",
            name="task",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="callbacks",
                to="tasks.task",
            ),
        ),
        migrations.AddIndex(
            model_name="asynccallback",
            index=models.Index(fields=["task", "-id"], name="callback_of_task"),
        ),
        migrations.AddIndex(
            model_name="asynccallback",
            index=models.Index(fields=["status", "-id"], name="callback_by_status"),
        ),
        migrations.RunPython(find_tasks, migrations.RunPython.noop),
    ]
