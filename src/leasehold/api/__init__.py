"""The public verbs, one function each: a verb returns data and reports notes; shells only parse and render.

A shell imports the module that it needs (`from leasehold.api import boxes`), and each verb imports its stages when it
is called: `lease status` must not pay for ssh, yaml or transfer.
"""
