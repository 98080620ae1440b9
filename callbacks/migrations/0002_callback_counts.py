from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("callbacks", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="callbacktoken",
            name="hits",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="callbacktoken",
            name="since",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="Stranger",
            fields=[
                ("since", models.DateTimeField(null=True)),
                ("hits", models.PositiveIntegerField(default=0)),
                ("address", models.CharField(max_length=45, primary_key=True, serialize=False)),
            ],
            options={
                "db_table": "callback_strangers",
                "default_permissions": (),
                "indexes": [models.Index(fields=["since"], name="callback_stranger_since")],
            },
        ),
    ]
