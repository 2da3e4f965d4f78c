"""Screens: live views, tables, panels."""
