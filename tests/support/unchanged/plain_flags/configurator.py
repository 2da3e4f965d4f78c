"""Let a config file and --key=value replace the globals of the script that executes this."""

import sys
from ast import literal_eval

for arg in sys.argv[1:]:
    if "=" not in arg:
        exec(open(arg).read())
    else:
        key, val = arg[2:].split("=", 1)
        if key not in globals():
            raise ValueError(f"Unknown config key: {key}")
        try:
            value = literal_eval(val)
        except (SyntaxError, ValueError):
            value = val
        globals()[key] = value
