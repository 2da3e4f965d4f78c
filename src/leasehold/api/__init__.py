"""One function a verb: each returns data and reports what it does; shells only parse and render.

A shell imports the module that it needs (`from leasehold.api import boxes`), and each verb imports its stages when it
is called: `lease status` must not pay for ssh, yaml or transfer.
"""
