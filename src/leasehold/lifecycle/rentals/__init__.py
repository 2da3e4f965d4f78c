"""Rentals by API as the ledger knows them: opened markets, states, addresses, unresolved intents, boxes nobody holds."""
