"""What the acceptance tests are driven with."""
