"""What is known of torch, its companions and host libraries."""
