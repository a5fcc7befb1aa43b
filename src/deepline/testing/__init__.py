"""Contract kits for ports and provider emulators, for consumers and for us."""
