from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AsyncCallback",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("received_at", models.DateTimeField()),
                (
                    "status",
                    models.CharField(
                        choices=[("RECEIVED", "Received"), ("IGNORED", "Ignored")], max_length=8
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=256)),
                ("headers", models.JSONField(db_column="headers_json", default=dict)),
                ("body", models.TextField(blank=True)),
            ],
            options={
                "verbose_name": "callback",
                "db_table": "async_callbacks",
            },
        ),
        migrations.CreateModel(
            name="CallbackToken",
            fields=[
                ("token_hash", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("attempt", models.PositiveIntegerField()),
            ],
            options={
                "db_table": "callback_tokens",
            },
        ),
    ]
