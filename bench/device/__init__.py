"""A GPU as a measuring instrument: launches, clocks, ceilings, what its functions give."""
