"""Rentals by API as the ledger knows them: opened markets, states, unresolved intents, boxes that nobody holds."""
