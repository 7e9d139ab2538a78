"""Who speaks, seeing what: single turns, debates, games, and the prompts around them."""
