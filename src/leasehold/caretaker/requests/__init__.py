"""Requests that home sends to a box: one module for each kind of request."""
