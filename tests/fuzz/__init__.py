"""Give parsers damaged inputs, and see that each is read or refused in one line, soon."""
