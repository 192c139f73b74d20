"""What built-in agents are told: their prompts, and how the templates among them become text.

`files` reads the prompts: the built-in ones, and the operator's, which win key by key; `texts` is what comes of it. A
system prompt is a template (`template`). `renderer` makes text of it in a process apart (`fork_server` is our
end of it), because a template can loop for ever, and Jinja2 has no limits of its own. That process runs `worker`, which
forks a `child` for each rendering; `rendering` is what the child does, `sandbox` what a template may do, and `limits`
how much of it. `answers` understands what comes back.

Only an agent's own system prompt is rendered. What an agent tells its sub-agents, results of tools, documents and what
people write never are: they are values of variables at most, and a value is not looked at for markers.

The process apart imports nothing of the coordinator, and Jinja2 is imported there alone: `worker`, `child`, `rendering`
and `sandbox` import only each other, `limits`, and the standard library.
"""
