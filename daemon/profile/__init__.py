"""Recording what an engine does: the ways there are, and the one flow that bounds them."""
