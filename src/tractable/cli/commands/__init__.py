"""What each command does; ``app`` declares their options and imports them when they are called."""
