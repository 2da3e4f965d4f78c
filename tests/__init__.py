"""Tests, and under support/ the beds they run on."""
