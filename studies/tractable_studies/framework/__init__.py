"""What the studies share: their description, their options, their record, their progress."""
