"""What built-in agents are told: their prompts, and how the templates among them become text.

`files` reads the prompts (`template`): the built-in ones, and the operator's, which win key by key. A system prompt is
a template. `renderer` renders it in a process apart (`fork_server` is our end of it), because a template can loop for
ever, and Jinja2 has no limits of its own. That process runs `worker`, which forks a `child` for each rendering;
`rendering` has the rendering itself and the sandbox, and `limits` the limits of both.

Only an agent's own system prompt is rendered. What an agent tells its sub-agents, results of tools, documents and what
people write never are: they are values of variables at most, and a value is not looked at for markers.

The process apart imports nothing of the coordinator, and Jinja2 is imported there alone: `worker`, `child` and
`rendering` import only each other, `limits`, and the standard library.
"""
