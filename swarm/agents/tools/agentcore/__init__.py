"""Tools of Amazon Bedrock AgentCore: a browser, a memory and an interpreter of code that run at AWS.

They come with the package ``bedrock-agentcore`` (the extra "agentcore") and AWS's usual credentials. `core.AgentCore`
is the way in; nothing of the package is imported before it is opened.
"""
