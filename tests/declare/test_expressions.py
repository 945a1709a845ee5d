"""Expressions: what is written for a value is read as that value, and nothing else is read as one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.dag.graph import Expression, Item, Param, Result, RunValue, Text
from tickwork.core.dag.graph_view import expression_text
from tickwork.declare.expressions import Inexpressible, NameScope, has_expression, secrets_in, value_of

SCOPE = NameScope(params=("day", "n"), steps=("a", "a.b", "a-1", "a.b.c", "häuser"), items=("x", "y"))
ONE = replace(SCOPE, items=("item",))
TEXTS = st.text(alphabet="ab$ {}.'\"\\\n", max_size=8)
KEYS = st.text(alphabet="ab .[0", max_size=4) | st.text(alphabet="""a"b""", max_size=3)
PATHS = st.lists(KEYS | st.integers(-99, 99), max_size=3).map(tuple)
REFERENCES = st.one_of(
    st.builds(Param, st.sampled_from(SCOPE.params), PATHS),  # type: ignore[arg-type]
    st.builds(Result, st.sampled_from(SCOPE.steps), PATHS),  # type: ignore[arg-type]
    st.builds(Item, st.sampled_from(SCOPE.items), PATHS),  # type: ignore[arg-type]
    st.sampled_from([RunValue(("scheduled_for",)), RunValue(("interval", "from")), RunValue(("interval", "to"))]),
)


@given(REFERENCES)
def test_a_single_expression_is_that_value(expression: Expression) -> None:
    assert value_of(expression_text(expression), SCOPE) == expression


@given(PATHS)
def test_a_step_without_names_for_its_elements_has_one(path: tuple[str | int, ...]) -> None:
    assert value_of(expression_text(Item("item", path)), ONE) == Item("item", path)


@given(st.lists(TEXTS | REFERENCES, max_size=5))
def test_in_a_longer_text_it_is_a_part(parts: list[str | Param | Result | Item]) -> None:
    joined: list[str | Param | Result | Item] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    written = expression_text(Text(tuple(joined)))
    expected = "".join(map(str, joined)) if all(isinstance(one, str) for one in joined) else Text(tuple(joined))
    if any(isinstance(one, str) and one.endswith("$") for one in joined[:-1]):
        return  # what comes next would make it an escape; a file cannot say this
    assert value_of(written, SCOPE, as_text=True) == expected
    assert has_expression(written) == isinstance(expected, Text)


@given(st.text(alphabet="ab$ {}.[]0'\"", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = value_of(text, SCOPE)
    except Inexpressible:
        assert "${" in text
    else:
        assert value == text or "${" in text


def test_a_step_is_what_stands_before_result_also_where_names_have_dots() -> None:
    assert value_of("${a.b.result.result}", SCOPE) == Result("a.b", ("result",))
    assert value_of("${a.result.result}", SCOPE) == Result("a", ("result",))
    assert value_of("${ a-1.result }", SCOPE) == Result("a-1")


def test_secrets_are_found_by_name() -> None:
    assert secrets_in("Bearer ${secret.A} ${secret.B_2} $${secret.C} ${secretary.D} ${a.secret.E}") == ["A", "B_2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${}", "${} names no value: there are ${params.NAME}, ${run.scheduled_for}, ${STEP.result} and ${item}."),
        ("${a}", "${a}: did you mean ${a.result}?"),
        ("${a.lines[0]}", "${a}".replace("}", ".lines[0]}: did you mean ${a.result.lines[0]}?")),
        ("${b.result}", "there is no step 'b'."),
        ("${a_1.result}", "there is no step 'a_1' (did you mean 'a-1'?)."),
        ("${params.dya}", "there is no parameter 'dya' (did you mean 'day'?)."),
        ("${params[0]}", "${params[0]} does not say which one: ${params.day}."),
        ("${item}", "${item} does not say which one: ${item.x}."),
        ("${item.z}", "nothing is mapped as 'z'."),
        ("${a.result.}", "cannot be read at '.'"),
        ("${a.result[x]}", "cannot be read at '[x]'"),
        ("${a.result + 1}", "cannot be read at ' + 1'"),
        ("${a.results}", "did you mean ${a.result.results}?"),
        ("${__import__('os')}", "names no value"),
    ],
)
def test_what_names_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(Inexpressible) as raised:
        value_of(text, SCOPE)
    assert words in str(raised.value)


def test_a_run_has_these_values_and_a_step_may_be_named_like_it() -> None:
    assert value_of("${run.is_catchup}", SCOPE) == RunValue(("is_catchup",))
    assert value_of("${run.result.n}", replace(SCOPE, steps=("run",))) == Result("run", ("n",))
    with pytest.raises(Inexpressible, match=r"names no value of the run: there are \$\{run.scheduled_for\}"):
        value_of("${run.day}", SCOPE)
