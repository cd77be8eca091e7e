"""How: the candidate plans of a region, and the work that each makes."""
