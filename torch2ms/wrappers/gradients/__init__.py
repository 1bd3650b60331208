"""What is differentiated, and what is asked of gradients."""
