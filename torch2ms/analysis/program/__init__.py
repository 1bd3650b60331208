"""The structured program: scopes, blocks and statements of all modules, and the questions asked of them."""
