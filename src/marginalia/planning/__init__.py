"""What a sweep will cost, before it is started."""
