"""Give up a box or results: teardown, waivers, parking."""
