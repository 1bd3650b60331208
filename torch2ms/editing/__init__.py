"""Changes of trees, whoever makes them: statements in suites, names and comments of what is written anew.

`rewriter` makes a tree with other expressions, `suites` one with other statements, `layout` keeps the comments and the
room around them, `fold` drops what a condition that became a constant leaves. Nothing in here knows of gradients.
"""
