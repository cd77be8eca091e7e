"""eqsat and its peers on a GPU."""
