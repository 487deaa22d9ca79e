"""Go templates, as far as manifests use them: one text, compiled once, filled many times.

A *template* is text with actions in double braces. It is lexed, parsed and compiled to closures
when its object changes (`engine.compile`), and refused then, with line and column, if anything in
it is unknown. Filling it (`Template.render`) is a pure function of the data: there is no clock, no
randomness, no environment, no network and no file. Both are bounded: source, nesting, steps, what
is made on the way and what comes out (`budget`).

Values are those of JSON. Where Go has types that JSON does not have, `values` has a class. What the
engine does differently from Go on purpose is listed in `docs/designs/templates.md`.
"""
