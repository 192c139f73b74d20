"""Files: uploads by agents and downloads from Slack."""
