"""Both ways of reading a namespace's tenant agree, whatever the namespace says."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tenantry.api import meta
from tenantry.directory import assignment, state

REFERENCES = st.lists(
    st.fixed_dictionaries(
        {
            "apiVersion": st.sampled_from(
                ["capsule.clastix.io/v1beta2", "capsule.clastix.io/v1beta1", "v1", "other/v1"]
            ),
            "kind": st.sampled_from(["Tenant", "TenantOwner"]),
            "name": st.sampled_from(["oil", "gas"]),
            "uid": st.sampled_from(["u1", "u2"]),
        }
    ),
    max_size=3,
)
LABELS = st.dictionaries(
    st.sampled_from(["capsule.clastix.io/tenant", "x"]), st.sampled_from(["oil", "gas"])
)


@given(labels=LABELS, references=REFERENCES)
def test_as_sent_and_as_stored_read_the_same(
    labels: dict[str, str], references: list[dict[str, Any]]
) -> None:
    namespace = {"metadata": {"name": "x", "labels": labels, "ownerReferences": references}}
    sent = assignment.of(namespace)
    stored = msgspec.convert(namespace["metadata"], meta.ObjectMeta, strict=False)
    assert assignment.stored(stored) == sent
    view = state.namespace_view(msgspec.json.encode(namespace))
    assert view.tenant == sent.tenant
    assert view.tenant_uid == (sent.uid if sent.complete else "")
    assert bool(view.raw) == sent.complete


def test_nothing_says_nothing() -> None:
    for nothing in (None, {}, {"metadata": {"labels": None, "ownerReferences": None}}):
        assert assignment.of(nothing).absent
        assert not assignment.of(nothing).complete
