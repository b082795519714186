"""What runs when: the command line, the demo."""
