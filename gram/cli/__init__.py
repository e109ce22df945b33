"""The command line: `app` has the table of commands, and the other modules implement them."""
