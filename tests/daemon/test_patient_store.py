"""A store that is away is missed, and found again by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from change.journal import Journal, JournalUnwritable
from daemon.patient_store import AGAIN_SECONDS, PatientStore
from store import StoreError


def test_it_opens_when_it_can(tmp_path: Path) -> None:
    blocked = tmp_path / "folder"
    blocked.write_text("in the way")
    now = [0.0]
    store = PatientStore(f"sqlite:///{blocked}/trimtab.db", lambda: now[0])
    journal = Journal(store, "http://engine")
    with pytest.raises(JournalUnwritable):
        journal.open("manual", "boot", "test", {"max_num_seqs": 8}, {"max_num_seqs": 16}, 1.0)
    blocked.unlink()
    with pytest.raises(StoreError), store.reading():
        pass
    now[0] = AGAIN_SECONDS
    journal.open("manual", "boot", "test", {"max_num_seqs": 8}, {"max_num_seqs": 16}, 1.0)
    assert len(journal.last(5)) == 1
    assert store.name.endswith("trimtab.db")
    store.close()


def test_an_error_inside_a_session_is_not_a_reason_to_open_again(tmp_path: Path) -> None:
    store = PatientStore(f"sqlite:///{tmp_path}/trimtab.db", lambda: 0.0)
    with pytest.raises(ZeroDivisionError), store.session():
        raise ZeroDivisionError
    with store.reading():
        pass
    store.close()
