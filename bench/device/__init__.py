"""A GPU as a measuring instrument: launches, clocks, ceilings, results of device functions."""
