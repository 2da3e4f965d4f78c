"""What this machine has and is: limits, kernel log, signs of its platform."""
