"""Which plan each kernel of a cover takes, once a compiler or a clock has told more than an estimate."""
