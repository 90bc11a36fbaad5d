"""What is computed from attention maps and passes."""
