"""Cronjob calls services on time. This package is the wiring; the leaves are in `cronjob.lib`."""

__version__ = "0.1.0"
