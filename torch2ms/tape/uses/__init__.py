"""What programs do with gradients between backward and step: clip, scale, loop over them, reset them.

`gradients` plans reads and writes, with `clipping`, `scaling` and `loops`; `resets` and `stored` what empties or keeps
them. Parameters that are frozen and thawed while a program trains are told by `toggles`, and judged in `freezing`,
`phases`, `late_thaws` and `skipping`.
"""
