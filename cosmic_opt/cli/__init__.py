"""The command line: each command parses, asks one question, formats. Results on stdout, log on stderr."""
