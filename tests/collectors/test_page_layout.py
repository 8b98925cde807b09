"""A page whose lines were seen before is read as the parser reads it, and any other page is told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectors.page_layout import PageLayout
from collectors.prometheus_text import PageParser

PARSER = PageParser({"up": "scalar", "power": "scalar"})
PAGE = (
    '# HELP up Whether.\nup 1\nother{a="1"} 7\n\npower{id="0",x="}"} 2.5 1700000000500\npower{id="1"} -3e2\n'
)


def figures(text: str) -> list[tuple[object, float | None]]:
    return [(point.value, point.time) for point in PARSER.parse(text)]


def test_figures_come_in_the_order_of_the_page() -> None:
    layout = PageLayout.of(PAGE, PARSER)
    assert layout.read(PAGE) == [(1.0, None), (2.5, 1_700_000_000.5), (-300.0, None)] == figures(PAGE)


def test_only_some_of_them_can_be_read() -> None:
    layout = PageLayout.of(PAGE, PARSER)
    assert layout.read(PAGE, layout.only([True, False, True])) == [(1.0, None), (-300.0, None)]
    assert layout.read(PAGE, layout.only([False] * 3)) == []


def test_other_values_are_read_and_other_lines_are_not() -> None:
    layout = PageLayout.of(PAGE, PARSER)
    later = PAGE.replace("2.5", "NaN").replace("} 7", "} 8").replace("up 1", "up 0 5")
    assert str(layout.read(later)) == str(figures(later))
    for changed in (
        PAGE.replace("up 1\n", ""),
        PAGE + "up2 1\n",
        PAGE.replace('id="1"', 'id="2"'),
        PAGE.replace("up 1", "up2 1"),
        PAGE.replace("other{", "power{"),
        PAGE.replace("# HELP", "power 1 #"),
    ):
        assert layout.read(changed) is None, changed


def test_what_cannot_be_read_is_left_to_the_parser() -> None:
    layout = PageLayout.of(PAGE, PARSER)
    for damaged in (
        PAGE[:-1],
        PAGE.replace("2.5", "2,5"),
        PAGE.replace("2.5", "2_5"),
        PAGE.replace("-3e2", ""),
    ):
        assert layout.read(damaged) is None, damaged


def test_a_line_with_blanks_where_writers_seldom_put_them() -> None:
    page = '  up {a="1" , b="2",}  4\nup\t5\n other 6\n'
    layout = PageLayout.of(page, PARSER)
    assert layout.read(page) == [(4.0, None), (5.0, None)] == figures(page)
    assert layout.read(page.replace("5", "51")) == [(4.0, None), (51.0, None)]


LINES = st.tuples(
    st.sampled_from(("up", "power", "other", "power_2", "# up", " up", "")),
    st.sampled_from(("", "{}", '{a="1"}', '{a="2",b="}"}', ' {a="3"} ')),
)


@given(
    st.lists(LINES, unique=True, max_size=12),
    st.lists(LINES, unique=True, max_size=12),
    st.lists(st.sampled_from(("0", "1.5", "+Inf", "2 1700000000000", "-7e3 5")), min_size=12, max_size=12),
)
def test_whatever_it_reads_is_what_the_parser_reads(
    lines: list[tuple[str, str]], others: list[tuple[str, str]], values: list[str]
) -> None:
    def series(name: str, pairs: str) -> tuple[str, str]:
        return name.strip(), pairs.strip() or "{}"

    def page(of: list[tuple[str, str]], shift: int) -> str:
        return "# A page.\n" + "".join(
            f"{name}{pairs} {values[(place + shift) % 12]}\n" if name else "\n"
            for place, (name, pairs) in enumerate(of)
            if series(name, pairs) not in {series(*before) for before in of[:place]}
        )

    layout = PageLayout.of(page(lines, 0), PARSER)
    assert layout.read(page(lines, 1)) == figures(page(lines, 1)), "the same lines are always read"
    found = layout.read(page(others, 2))
    assert found is None or found == figures(page(others, 2))
