"""Functions that people write with torch beside their models' layers, in eqsat, in eager mode and in inductor."""
