from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_callback_counts"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="taskrun",
            name="run_oldest",
        ),
        migrations.RemoveIndex(
            model_name="taskrun",
            name="run_busy",
        ),
    ]
