"""Text on its way to a reader. Each reader has one function, and foreign text reaches it through nothing else.

| reader | function | where it stands |
|---|---|---|
| model | `model.for_model`, `model.data_for_model` | JSON answers, MCP results, requests to models and agents |
| terminal | `terminal.for_terminal` | the command line |
| Slack | `swarm.domain.text.mrkdwn.safe`, `outgoing.plain_for_slack` | deliveries, streams, cards, files |
| page | text nodes, `safe` links | the twin's page (`static/dom.js`) |
| log | `swarm.telemetry.redaction.Redactor` | the formatter of `swarm.telemetry.log` |

All of them begin with `characters.strip_invisible`. What is stored stays as it came.
"""
