"""A region's index sets: IndexBook, Poly-View, Poly Core and the report on them."""
