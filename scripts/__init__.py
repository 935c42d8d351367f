"""What sets up the environments of the project: run as scripts, imported by the tests."""
