"""The rule that picks depth and temperature."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gram.evaluation.tune import choose_setting

SHARES = st.sampled_from([0.0, 0.5, 0.9, 0.95, 1.0])


@settings(max_examples=40)
@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=6))
def test_the_best_coverage_among_the_accurate_or_else_the_most_accurate(tried: list[tuple[float, float]]) -> None:
    settings_tried = [{"accuracy_all_samples": accuracy, "coverage": coverage} for accuracy, coverage in tried]
    chosen = choose_setting(settings_tried, 0.95)
    accurate = [coverage for accuracy, coverage in tried if accuracy >= 0.95]
    if accurate:
        assert chosen["accuracy_all_samples"] >= 0.95
        assert chosen["coverage"] == max(accurate)
    else:
        assert chosen["accuracy_all_samples"] == max(accuracy for accuracy, _ in tried)
