"""A streaming HTTP/1.1 reverse proxy: heads are parsed exactly, bodies pass by untouched.

*Downstream* is the side of the clients, *upstream* that of the servers behind. A *handler* gets
each request as an *exchange* and says what becomes of it: forward it with a head of the handler's
making, answer it, or do both by hand with `Exchange` and `fetch`. *Framing* is how a message's end
is found; both sides' framing is followed byte by byte, so nothing is ever forwarded of which we do
not know where it ends. After a 101 the connection is a *tunnel*.

Nothing here knows of tenants or Kubernetes. Callers decide who may do what; the engine promises
that what it forwards is what it parsed.
"""
