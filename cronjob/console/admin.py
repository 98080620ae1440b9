"""Django's own users and groups, in the console's clothes."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User

from cronjob.console import base

admin.site.index_title = "Overview"
admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, base.ConsoleAdmin):
    form = base.UserChangeForm
    add_form = base.UserCreationForm
    change_password_form = base.AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, base.ConsoleAdmin):
    pass
