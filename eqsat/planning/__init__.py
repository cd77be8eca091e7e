"""Which plan every kernel of a cover takes, once a compiler's report or a measured time is known beside the
estimate."""
