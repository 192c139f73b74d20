"""The prompts of built-in agents, and the rendering of the templates among them.

`files` reads the prompts: the built-in ones, and the operator's, which take precedence key by key. A
system prompt is a template. `renderer` renders templates in a separate process, because a template can loop for ever,
and Jinja2 has no limits of its own. The process runs `worker`, which forks a child for each rendering; `rendering` has
the rendering itself and the sandbox, and `limits` the limits of both.

Only an agent's own system prompt is rendered. Prompts for sub-agents, results of tools, documents and messages of
people never are: they are values of variables at most, and markers in values have no effect.

The separate process imports nothing of the coordinator, and Jinja2 is imported there alone: `worker` and
`rendering` import only each other, `limits`, and the standard library.
"""
