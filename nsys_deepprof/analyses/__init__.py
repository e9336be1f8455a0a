"""Analyses: each a function from a trace to a Result. They never print, plot or open files."""
