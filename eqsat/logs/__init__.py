"""Records of what eqsat does while it does it."""
