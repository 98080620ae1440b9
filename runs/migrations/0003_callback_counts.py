from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0002_pauses_and_parking"),
    ]

    operations = [
        migrations.AddField(
            model_name="taskrun",
            name="progress_message",
            field=models.CharField(blank=True, max_length=256),
        ),
    ]
