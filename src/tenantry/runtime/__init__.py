"""What every controller and webhook of Tenantry stands on: caches, work queues, leadership, writes.

Vocabulary. An *informer* keeps a local cache equal to what the API server holds for one kind. A
*handler* hears of each change and computes *keys*, nothing else. A *controller* takes keys from its
*work queue* and reconciles: it reads caches, computes what should be, and *applies* the difference.
A *manager* starts these in order and ends the process when any of them cannot go on.

The runtime is level triggered: an event says only that something may have changed. What happened
is never remembered, so nothing is lost when a process is killed, a watch is cut or a list repeated.

Whatever has timing in it (`queue`, `reflector`, `election`, `events`) is a machine without I/O, fed
with what happened and the time, answering with what to do; the shells around them are thin. What
this package is not: it knows no kind, no domain and no path of a webhook.
"""
