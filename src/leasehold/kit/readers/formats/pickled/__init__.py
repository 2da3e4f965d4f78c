"""Plain pickles and joblib files."""
