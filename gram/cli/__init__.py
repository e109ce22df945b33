"""The command line: `app` holds the table of commands, the other modules what they do."""
