"""The read path: analyse, search, fuse, boost, gate, pack. Ranking is made of pure functions over plain values."""
