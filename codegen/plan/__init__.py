"""The candidate plans of a region, their work, and the checks that a plan fits its region."""
