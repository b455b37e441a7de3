"""Critics beside the graph's values, on the page."""

from dataclasses import replace

from page_samples import locomotion_run

from stacq.report.page_critic import gaps_table


def test_the_page_shows_the_mean_over_seeds_and_survives_damage() -> None:
    run = locomotion_run("TD3+BC", "one-v2")
    told = {"rows": 5, "graph": 1.0, "quantiles": [0.05, 0.5, 0.95], "seeds": [[-4.0, 1.0, 7.0], [-6.0, 3.0, 9.0]]}
    slots = {run.label: 0}
    assert gaps_table([run], slots) is None
    text = str(gaps_table([replace(run, critic=told)], slots))
    assert all(f">{number}" in text for number in ("−5.00", "2.00", "8.00", "5%", "50%", "95%")), text
    for key, value in (("seeds", []), ("seeds", [[1.0]]), ("seeds", 3), ("quantiles", []), ("rows", "x")):
        assert gaps_table([replace(run, critic={**told, key: value})], slots) is None
