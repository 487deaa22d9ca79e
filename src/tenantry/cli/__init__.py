"""What people type: `tenantry ...` and `kubectl tenantry ...`.

One module per command, imported when it is used: the start-up of one command does not pay for
another's libraries. Each module offers `command`. Results go to standard output, everything else
(progress, warnings, errors) to standard error; the exit code is 0 for done, 1 for refused or
failed, 2 for a command line that makes no sense.
"""
