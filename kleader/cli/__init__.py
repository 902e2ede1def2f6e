"""The command line: parses, checks, explains; then becomes the supervisor."""

COMPLETION_VARIABLE = "_KLEADER_COMPLETE"  # click's name for it
