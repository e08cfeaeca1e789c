"""An HTTP service of runs, and its page. Needs the extra `[serve]`: nothing else imports this."""
