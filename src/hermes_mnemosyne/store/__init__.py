"""The storage seam: a Protocol, the values that cross it, and nothing of any database."""
