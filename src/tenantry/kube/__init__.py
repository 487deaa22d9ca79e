"""A client of the Kubernetes API: configuration, transport, verbs, watches, typed errors.

Vocabulary: a *config* says which server and as whom; a *client* owns the connection pools of one
config and is closed by its owner; `Client.as_user` is a *view* that impersonates over the same
pools. A write has one of three *outcomes*: it returns (applied), raises `errors.ApiError` or
`errors.Unreachable` (rejected: the server surely did nothing), or raises `errors.OutcomeUnknown`
(it may or may not have happened: read back before repeating).

What is decided here is pure: which error an answer means (`errors`), whether to try again
(`retry`), how a stream is cut into events (`watch`), what a kubeconfig says (`kubeconfig`). Caches,
work queues and leases are `tenantry.runtime`.
"""
