"""Reproductions of tables and figures of papers, one folder each.

Run with ``tractable run NAME`` or ``python -m tractable_studies.FOLDER.run``.
"""
