"""Where, and legality: a region → IndexBook → Poly-View and Poly Core."""
