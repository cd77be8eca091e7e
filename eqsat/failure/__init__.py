"""What becomes of a failure of eqsat itself: an InternalError, and a Python file that makes it happen again."""
