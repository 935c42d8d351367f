"""Mnemosyne: durable, searchable, private memory for AI agents."""
