"""Play cycles of the engine against a snapshot, without a cluster.

`replay` carries decisions out as a cluster would, `whatif` changes the snapshot before, `report`
shows what happened as text and `page` as a page with charts.
"""
