"""Text for readers. Each kind of reader has one function, through which all external text passes.

| reader | function | used in |
|---|---|---|
| model | `swarm_base.characters.for_model`, `.data_for_model` | JSON, MCP results, requests to models and agents |
| terminal | `swarm_base.characters.for_terminal` | the command line |
| Slack | `slack_text.safe`, `slack_text.escape` | deliveries, streams, cards, files |
| page | text nodes, `safe` links | the twin's page (`static/dom.js`) |
| log | `swarm_base.redaction.Redactor` | the formatter of `swarm_base.log` |

All of them begin with `swarm_base.characters.strip_invisible`. Stored text is unchanged.
"""
