"""The command line: parses, checks, explains; then becomes the supervisor."""
