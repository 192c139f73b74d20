"""Templates that try to run for ever, to take all memory, or to get out. All of them go wrong in their second line."""

from __future__ import annotations

from typing import Final

TIME: Final = "takes longer than"
MEMORY: Final = "too much memory"
TEXT: Final = "KiB of text"
DEPTH: Final = "nested too deeply"

ENDLESS: Final = {
    "nested loops": "\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a filter over a product of loops": (
        "\n{% for a in range(99999) %}{% set x = range(99999)|map('string')|map('upper')|list %}{% endfor %}"
    ),
    "a power": "\n{{ 7 ** (9 ** 9) }}",
    "a power of a power": "\n{{ (((9 ** 999) ** 999) ** 99) }}",
    "an addition of many lists, in one call": "\n{{ ([[1]] * 200000)|sum(start=[]) }}",
    "a search for links": "\n{{ ('a' * 20000000)|urlize }}",
    "two macros that call each other": (
        "{% macro m(n) %}\n{% for x in range(99) %}{{ m(n - 1) if n }}{% endfor %}{% endmacro %}{{ m(9) }}"
    ),
    "a search in a long text, again and again": (
        "{% set x = 'ab' * 25000 %}{% set y = 'ab' * 12500 ~ 'c' %}\n"
        "{% for i in range(99999) %}{% set z = x.find(y) %}{% endfor %}"
    ),
    "a recursive loop": (
        "{% set t = [[[[[[[[], []], [[], []]]]]]]] %}\n"
        "{% for i in range(99999) %}{% for x in t recursive %}{{ loop(x) if x }}{% endfor %}{% endfor %}"
    ),
}
"""What is stopped by the clock."""

GREEDY: Final = {
    "a text times a billion": ("\n{{ 'a' * 10 ** 9 }}", MEMORY),
    "a list times a billion": ("\n{{ [1] * 10 ** 9 }}", MEMORY),
    "more than a machine has": ("\n{{ 'a' * 10 ** 30 }}", "index-sized"),
    "a text that is doubled": (
        "{% set n = namespace(x='a') %}\n{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        MEMORY,
    ),
    "center": ("\n{{ 'a'|center(10 ** 9) }}", MEMORY),
    "the method center": ("\n{{ 'a'.center(10 ** 9) }}", MEMORY),
    "zfill": ("\n{{ 'a'.zfill(10 ** 9) }}", MEMORY),
    "expandtabs": ("\n{{ '\\t'.expandtabs(10 ** 9) }}", MEMORY),
    "indent": ("\n{{ ('a\\n' * 100)|indent(10 ** 8) }}", MEMORY),
    "wordwrap": ("\n{{ ('a ' * 10000000)|wordwrap(1) }}", (MEMORY, TIME)),
    "replace": ("\n{{ ('a' * 100000)|replace('a', 'b' * 100000) }}", MEMORY),
    "the filter format": ("\n{{ '%1000000000d'|format(1) }}", MEMORY),
    "the operator for formats": ("\n{{ '%1000000000d' % 1 }}", MEMORY),
    "the method format": ("\n{{ '{:>1000000000}'.format(1) }}", MEMORY),
    "a list of all": ("\n{% set x = range(99999)|list * 999 %}{{ x|list|length }}", MEMORY),
    "batch": ("\n{{ [1]|batch(10 ** 9, 0)|list|length }}", MEMORY),
    "slice": ("\n{{ [1]|slice(10 ** 9)|list|length }}", (MEMORY, TIME)),
    "a macro that gathers": (
        "{% macro m() %}\n{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}{% endmacro %}{{ m() }}",
        MEMORY,
    ),
    "lines without end": ("\n{% for a in range(99999) %}{{ 'a' * 999 }}{% endfor %}", TEXT),
    "a large text at once": ("\n{{ 'é' * 200000 }}", TEXT),
    "a range that is too long": ("\n{{ range(10 ** 9)|length }}", "too big"),
    "a macro that calls itself": ("{% macro m() %}\n{{ m() }}{% endmacro %}{{ m() }}", DEPTH),
    "a block that calls itself": ("\n{% block b %}{{ self.b() }}{% endblock %}", DEPTH),
    "brackets": ("\n{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", DEPTH),
    "brackets that Python cannot read": ("\n{{ " + "[" * 150 + "]" * 150 + " }}", ("nested", "parentheses")),
    "a number that is too long": ("\n{{ 10 ** 5000 }}", "ValueError"),
}
"""What is stopped for what it takes: the template, and words of the reason (one of them)."""

FORBIDDEN: Final = {
    "the class of a text": ("\n{{ ''.__class__ }}", "__class__"),
    "the class by a key": ("\n{{ ''['__class__'] }}", "__class__"),
    "the class of a mapping": ("\n{{ client_context.__class__ }}", "__class__"),
    "the class of what is missing": ("\n{{ nobody.__class__ }}", "__class__"),
    "the filter attr": ("\n{{ ''|attr('__class__') }}", "__class__"),
    "the filter map, by attribute": ("\n{{ [user]|map(attribute='__class__')|list }}", "__class__"),
    "the filter map, with attr": ("\n{{ ['']|map('attr', '__class__')|list }}", "__class__"),
    "sort, by attribute": ("\n{{ ['', '']|sort(attribute='__class__') }}", "__class__"),
    "groupby": ("\n{{ ['', '']|groupby('__class__') }}", "__class__"),
    "selectattr": ("\n{{ ['']|selectattr('__class__')|list }}", "__class__"),
    "sum, by attribute": ("\n{{ ['']|sum(attribute='__class__') }}", "__class__"),
    "a format": ("\n{{ '{0.__class__}'.format(user) }}", "__class__"),
    "a format of a mapping": ("\n{{ '{u.__class__}'.format_map({'u': user}) }}", "__class__"),
    "globals of a macro": ("{% macro m() %}{% endmacro %}\n{{ m.__init__.__globals__ }}", "__init__"),
    "globals of a loop": ("\n{% for a in [1] %}{{ loop.__init__ }}{% endfor %}", "__init__"),
    "the template": ("\n{{ self.__init__ }}", "__init__"),
    "the template's context": ("\n{{ self._TemplateReference__context }}", "context"),
    "globals of a namespace": ("\n{{ namespace.__init__.__globals__ }}", "__init__"),
    "the frame of a generator": ("\n{{ ([1]|map('string')).gi_frame }}", "gi_frame"),
    "changing the context": ("\n{{ client_context.update({'a': 1}) }}", "update"),
    "emptying a list": ("\n{{ [1].clear() }}", "clear"),
    "include": ("\n{% include 'a' %}", "one text"),
    "import": ("\n{% import 'a' as a %}", "one text"),
    "from": ("\n{% from 'a' import b %}", "one text"),
    "extends": ("\n{% extends 'a' %}", "one text"),
    "including itself": ("\n{% include self %}", "one text"),
    "lipsum": ("\n{{ lipsum(n=10 ** 9) }}", "'lipsum' is undefined"),
    "dict": ("\n{{ dict(a=1) }}", "'dict' is undefined"),
    "joiner": ("\n{{ joiner() }}", "'joiner' is undefined"),
    "cycler": ("\n{{ cycler(1) }}", "'cycler' is undefined"),
}
"""What is not there, or must not be reached: the template, and words of the reason."""

WRONG: Final = {
    "an open bracket": ("\n{{ a", "unexpected end of template"),
    "an unknown tag": ("\n{% foo %}", "unknown tag 'foo'"),
    "an unknown filter": ("\n{{ 1|nothing }}", "No filter named 'nothing'"),
    "an unknown filter in a branch": ("\n{% if user.name %}{{ 1|nothing }}{% endif %}", "No filter named 'nothing'"),
    "a tag without its end": ("\n{% if a %}", "endif"),
    "too many loops in each other": ("\n" + "{% for a in b %}" * 30 + "{% endfor %}" * 30, "nested blocks"),
    "a division by zero": ("\n{{ 1 / 0 }}", "division by zero"),
    "kinds that do not fit": ("\n{{ 'a' + 1 }}", "str"),
    "calling what is missing": ("\n{{ client_context.a() }}", "has no attribute 'a'"),
}
"""Mistakes: the template, and words of the reason."""
