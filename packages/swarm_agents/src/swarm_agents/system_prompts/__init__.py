"""The system prompts of built-in agents, and the rendering of their templates.

`files` reads the built-in prompts and the operator's, which take precedence key by key. A system prompt is a template.
`renderer` renders templates in a separate process, because a template can loop forever and Jinja2 has no limits of its
own. The process runs `render_process`, which forks a child for each rendering; `rendering` contains the rendering and
the sandbox, and `limits` the limits of both.

Only an agent's own system prompt is rendered. Prompts for sub-agents, results of tools, documents and user messages are
never rendered: at most, they are values of variables, and markup in values has no effect.

The separate process imports no coordinator code: `render_process` and `rendering` import only each other, `limits`,
Jinja2 and the standard library.
"""
