"""The outer loop of a campaign: start-up settings in turn, hot tuning inside each, under a restart budget."""
