"""Renderers of results. They compute nothing and know neither SQL nor traces."""
