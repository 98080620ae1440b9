from django.db import migrations

VIEW = {
    ("tasks", "task"): ["view"],
    ("runs", "taskrun"): ["view"],
    ("runs", "process"): ["view"],
    ("callbacks", "asynccallback"): ["view"],
}
OPERATE = VIEW | {
    ("tasks", "task"): ["view", "operate"],
    ("runs", "taskrun"): ["view", "operate"],
}
EDIT = OPERATE | {("tasks", "task"): ["view", "operate", "add", "change", "delete"]}
GROUPS = {"viewer": VIEW, "operator": OPERATE, "editor": EDIT}

NAMES = {
    "operate_task": "Can run, enable, disable and pause tasks",
    "operate_taskrun": "Can cancel and replay runs",
}


def make_groups(apps, schema_editor):
    """The permissions are made here as well: Django makes them only after all migrations."""
    alias = schema_editor.connection.alias
    types = apps.get_model("contenttypes", "ContentType").objects.using(alias)
    permissions = apps.get_model("auth", "Permission").objects.using(alias)
    for name, rights in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.using(alias).get_or_create(name=name)
        for (app, model), verbs in rights.items():
            kind, _ = types.get_or_create(app_label=app, model=model)
            said = apps.get_model(app, model)._meta.verbose_name
            for verb in verbs:
                codename = f"{verb}_{model}"
                permission, _ = permissions.get_or_create(
                    content_type=kind,
                    codename=codename,
                    defaults={"name": NAMES.get(codename, f"Can {verb} {said}")},
                )
                group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("tasks", "0001_initial"),
        ("runs", "0001_initial"),
        ("callbacks", "0001_initial"),
    ]
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
