"""The time of a kernel on a machine, by the cost model of seed 000 §11."""
