"""Parts shared by all studies: description, options, record and progress."""
