"""A trouble that is tried again and again is logged when it begins and when it changes, not at each try."""

from __future__ import annotations

from provider.repeats import Repeats


def test_a_trouble_is_news_once_when_it_changes_and_after_an_hour() -> None:
    now = [0.0]
    repeats = Repeats(lambda: now[0])
    assert repeats.is_news("pass", "no answer after 3 s")
    assert not repeats.is_news("pass", "no answer after 17 s"), "numbers are no change"
    assert repeats.is_news("other", "no answer after 3 s")
    assert repeats.is_news("pass", "refused")
    now[0] = 3601
    assert repeats.is_news("pass", "refused")


def test_an_end_is_news_only_of_what_was_logged() -> None:
    repeats = Repeats(lambda: 0.0)
    assert not repeats.ended("pass")
    repeats.is_news("pass", "x")
    assert repeats.ended("pass") and not repeats.ended("pass")
    assert repeats.is_news("pass", "x")


def test_any_number_of_names_fills_no_memory() -> None:
    repeats = Repeats(lambda: 0.0)
    for number in range(5000):
        assert repeats.is_news(f"kind {number}", "x")
    assert sum(not repeats.is_news(f"kind {number}", "x") for number in range(5000)) <= 1000
