"""What a template may use, what it gets, and that data stays data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_agents.system_prompts.files import PromptError, Template
from swarm_agents.system_prompts.limits import MOST_TEMPLATE_BYTES, MOST_VARIABLE_BYTES
from swarm_agents.system_prompts.renderer import Renderer
from swarm_agents.system_prompts.rendering import PromptEnvironment, compiled, rendered

pytestmark = [pytest.mark.req("AGENT-08"), pytest.mark.asyncio(loop_scope="module")]

ENVIRONMENT = PromptEnvironment()
IDENTIFIERS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True).filter(
    lambda name: name.lower() not in {"and", "or", "not", "is", "in", "if", "else", "none", "true", "false"}
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def template(text: str) -> Template:
    return Template(name="prompts/assistant.md.j2", text=text)


def here(text: str, **variables: object) -> str:
    """Rendered by the same code, in this process."""
    return rendered(ENVIRONMENT, compiled(ENVIRONMENT, text), variables, 100_000)


async def test_a_template_sees_the_client_context_and_the_verified_user(renderer: Renderer) -> None:
    text = "{{ user.name }} in {{ client_context.channel_name }}{% if client_context.overthink %}, carefully{% endif %}"
    variables = {"user": {"name": "Ada"}, "client_context": {"channel_name": "#ops", "overthink": True}}
    assert await renderer.render(template(text), variables) == "Ada in #ops, carefully"


async def test_missing_keys_render_as_nothing_at_any_depth(renderer: Renderer) -> None:
    text = "[{{ user.a }}{{ client_context.a.b.c['d'].e }}{{ nobody.at.all }}{% if user.a.b %}x{% endif %}]"
    assert await renderer.render(template(text), {"user": {}, "client_context": {"a": {}}}) == "[]"


@given(path=st.lists(IDENTIFIERS, min_size=1, max_size=5))
async def test_any_missing_key_is_falsy_whatever_it_is_called(path: list[str]) -> None:
    dotted, by_key = ".".join(path), "".join(f"['{name}']" for name in path)
    for way in (f"user.{dotted}", f"user{by_key}"):
        assert (
            here(f"<{{{{ {way} }}}}{{% if {way} %}}yes{{% endif %}}{{{{ {way} is defined }}}}>", user={}) == "<False>"
        )


@pytest.mark.parametrize("name", sorted(name for name in dir(dict) if not name.startswith("_")))
async def test_a_method_of_mappings_is_no_key_of_the_context(name: str) -> None:
    assert here(f"<{{{{ user.{name} }}}}{{% if user['{name}'] %}}yes{{% endif %}}>", user={"a": 1}) == "<>"
    assert here(f"{{{{ user.{name} }}}}{{{{ user['{name}'] }}}}", user={name: "own"}) == "ownown"


async def test_mappings_can_be_read_by_their_methods() -> None:
    text = "{% for k, v in user.items() %}{{ k }}={{ v }};{% endfor %}{{ user.get('z', 'no') }}{{ user.keys()|list }}"
    assert here(text, user={"a": 1, "b": 2}) == "a=1;b=2;no['a', 'b']"


@settings(max_examples=100)
@given(text=st.text(alphabet=st.sampled_from("{}%#-+ \t\r\nax'\"|.é"), max_size=30))
async def test_plain_text_passes_unchanged(renderer: Renderer, text: str) -> None:
    plain = text.replace("{{", "{").replace("{{", "{").replace("{%", "{").replace("{#", "{")
    if not any(marker in plain for marker in ("{{", "{%", "{#")):
        assert await renderer.render(template(plain), {}) == plain


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", " \n"])
async def test_the_last_newlines_of_a_template_stay(renderer: Renderer, ending: str) -> None:
    assert await renderer.render(template("Hello {{ user.name }}" + ending), {}) == "Hello " + ending


@given(value=JSON)
async def test_values_are_never_rendered_themselves(value: object) -> None:
    assert here("{{ user.name }}", user={"name": value}) == str(value)


@pytest.mark.parametrize("value", ["{{ 7 * 7 }}", "{% for a in range(9) %}x{% endfor %}", "{# gone #}", "{{"])
async def test_markers_in_values_are_data(renderer: Renderer, value: str) -> None:
    text = "{{ user.name }}|{% set x = client_context.topic %}{{ x }}|{{ '%s' % x }}|{{ '{}'.format(x) }}"
    variables = {"user": {"name": value}, "client_context": {"topic": value}}
    assert await renderer.render(template(text), variables) == "|".join([value] * 4)


@given(value=JSON)
async def test_values_can_be_quoted_so_that_they_stay_on_one_line(value: object) -> None:
    quoted = here("{{ user.name|tojson }}", user={"name": value})
    assert "\n" not in quoted
    assert here("{{ nobody|tojson }}") == "null"


async def test_quoting_writes_what_people_wrote(renderer: Renderer) -> None:
    variables = {"user": {"name": "Zoë O'Neil <z>"}}
    assert await renderer.render(template("{{ user.name|tojson }}"), variables) == '"Zoë O\'Neil <z>"'


async def test_variables_may_be_any_mapping(renderer: Renderer) -> None:
    variables: Mapping[str, object] = MappingProxyType({"user": MappingProxyType({"name": "Ada"})})
    assert await renderer.render(template("{{ user.name }}"), variables) == "Ada"


async def test_half_a_character_does_not_get_into_a_prompt(renderer: Renderer) -> None:
    assert await renderer.render(template("{{ user.name }}"), {"user": {"name": "a\ud800b"}}) == "a?b"


async def test_renderings_of_one_template_do_not_know_each_other(renderer: Renderer) -> None:
    text = "{% set n = namespace(x=user.name) %}{{ n.x }}"
    for name in ("Ada", "Bo", "Ada"):
        assert await renderer.render(template(text), {"user": {"name": name}}) == name


async def test_an_edited_template_of_the_same_name_counts_at_once(renderer: Renderer) -> None:
    assert await renderer.render(template("{{ 1 }} a"), {}) == "1 a"
    assert await renderer.render(template("{{ 1 }} b"), {}) == "1 b"


async def test_checking_finds_mistakes_and_renders_nothing(renderer: Renderer) -> None:
    await renderer.check(template("fine {{ 1 / 0 }}"))
    with pytest.raises(PromptError) as caught:
        await renderer.check(template("a\nb {% endif %}"))
    assert (caught.value.name, caught.value.line) == ("prompts/assistant.md.j2", 2)


@pytest.mark.parametrize(
    ("text", "variables", "reason"),
    [
        ("{{ 1 }}" + "a" * MOST_TEMPLATE_BYTES, {}, "larger than 256 KiB"),
        ("{{ 1 }}", {"user": "a" * MOST_VARIABLE_BYTES}, "variables are larger than 1024 KiB"),
        ("{{ 1 }}", {"user": object()}, "cannot be written as JSON"),
    ],
)
async def test_what_is_too_large_to_send_is_refused(
    renderer: Renderer, text: str, variables: Mapping[str, object], reason: str
) -> None:
    with pytest.raises(PromptError, match=reason):
        await renderer.render(template(text), variables)


async def test_large_texts_and_variables_fit(renderer: Renderer) -> None:
    most = 256 * 1024
    assert await renderer.render(template("{{ user }}"), {"user": "é" * (most // 2)}) == "é" * (most // 2)
    assert await renderer.render(template("{{ 1 }}" + "a" * (most - 7)), {"user": "b" * 1_000_000}) == "1" + "a" * (
        most - 7
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Hello.\n{{ client_contxt.channel }}", "line 2.*no variable client_contxt; did you mean client_context"),
        ("{% for tool in toolz %}{{ tool.name }}{% endfor %}", "did you mean tools"),
        ("{{ user.nmae }}", "no variable user.nmae; did you mean user.name"),
        ("{{ user['nmae'] }}", "no variable user.nmae; did you mean user.name"),
        ("{% if todday %}x{% endif %}", "did you mean today"),
        ("{% if today is definedd %}x{% endif %}", "there is no test definedd"),
        ("{% if today %}{{ today|uper }}{% endif %}", "there is no filter uper"),
        ("{{ zzzz }}", "no variable zzzz: client_context, user, agent, today, tools"),
    ],
)
async def test_a_variable_that_no_run_has_is_refused_at_the_start(renderer: Renderer, text: str, says: str) -> None:
    with pytest.raises(PromptError, match=says):
        await renderer.check(template(text))


async def test_variables_that_a_template_makes_and_keys_of_the_context_are_its_own(renderer: Renderer) -> None:
    text = (
        "{% set mine = user.name %}{% macro twice(word) %}{{ word }}{% endmacro %}{{ mine }}{{ twice(agent) }}"
        "{% for key, value in client_context.items() %}{{ loop.index }}{{ key }}{% endfor %}{{ client_context.a.b.c }}"
        "{% set ns = namespace(n=1) %}{% for one in range(3) %}{% set ns.n = one %}{% endfor %}{{ user.get('name') }}"
    )
    await renderer.check(template(text))
